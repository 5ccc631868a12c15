"""How everything is drawn: `html` renders templates, `svg` draws every chart. Both escape what they show."""
