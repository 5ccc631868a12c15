"""Tables as people keep them: text with any delimiter, gzip, JSON, Excel, Parquet, data frames.

`opening` makes a `sheets.Sheet` of whatever was given (`text`, `books`), which hands out its cells in chunks; `cells`
says what stands in one; `rows` is the whole of a small table. `words` are for messages, `held` is what nobody may open.
Nothing heavy is imported before it is used.
"""
