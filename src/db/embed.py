#!/usr/bin/env python3
"""Puts SQL files into a C source: embed.py OUT.c SQL_DIR MIGRATIONS_DIR.  See db/sql.h.
Any other text files: embed.py --files OUT.c FILE...  See serve/asset.h.

In a file of SQL_DIR `:name` alone stands for the text of name.inc, as psql's \\set would have it; it may hold further ones.
"""
import pathlib
import re
import sys


def literal(text):
    lines = []
    for line in text.split('\n'):
        quoted = line.replace('\\', '\\\\').replace('"', '\\"').replace('?', '\\?')
        lines.append('\t    "%s\\n"' % quoted)
    return '\n'.join(lines) if lines else '\t    ""'


def expand(path):
    included = {p.stem: p.read_text().rstrip() for p in path.parent.glob('*.inc')}
    text, before = path.read_text(), None
    while text != before:
        text, before = re.sub(r'(?<![:\w]):([a-z_]+)\b', lambda m: included.get(m[1], m[0]), text), text
    return text


def table(name, files):
    rows = ''.join('\t{"%s",\n%s},\n' % (label, literal(expand(path))) for label, path in files)
    return 'const struct sql_file %s[] = {\n%s\t{NULL, NULL},\n};\n' % (name, rows)


def embed_files(out, paths):
    rows = ''.join('\t{"%s",\n%s},\n' % (p.name, literal(p.read_text().removesuffix('\n'))) for p in paths)
    out.write_text('/* Made by embed.py; do not edit. */\n#include "serve/asset.h"\n\n'
                   'const struct asset assets[] = {\n%s\t{NULL, NULL},\n};\n' % rows)


def main():
    if sys.argv[1] == '--files':
        return embed_files(pathlib.Path(sys.argv[2]), [pathlib.Path(p) for p in sys.argv[3:]])
    out, sql_dir, migrations = (pathlib.Path(p) for p in sys.argv[1:4])
    queries = [(p.stem, p) for p in sorted(sql_dir.glob('*.sql'))]
    numbered = [(p.name, p) for p in sorted(migrations.glob('[0-9]*.sql'))]
    api = [('api/' + p.name, p) for p in sorted((migrations / 'api').glob('*.sql'))]
    out.write_text(
        '/* Made by embed.py from the .sql files; do not edit. */\n'
        '#include "db/sql.h"\n\n'
        + table('sql_queries', queries) + table('sql_migrations', numbered) + table('sql_api', api))


if __name__ == '__main__':
    main()
