"""Tables of any format: delimited text, gzip, JSON, Excel, Parquet, data frames. `readers` opens a source as a
`sheet.Sheet`, which yields its cells in chunks; `small_table` reads a whole small table; `sources` knows the files of
other tools. Heavy libraries are imported on first use.
"""
