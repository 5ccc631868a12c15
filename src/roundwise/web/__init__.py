"""The page and the API: `roundwise serve`. Nothing else imports this room."""
