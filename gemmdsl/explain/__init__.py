"""Reports that say why a kernel costs what it does, and what to change.

`model(program, schedule, ...)` puts the analyses together; `text`, `document` and `page` show them to a
person, to a program and in a browser.
"""
