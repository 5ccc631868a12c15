"""The page and the API: `roundwise serve`. No other package imports this one."""
