#!/usr/bin/python3
"""What a version is made of, as SPDX 2.3 JSON: each source file with its sums and licence, and each library that the
program is linked with, in the version that this machine has.  Called by scripts/package sbom.

usage: sbom.py TREE VERSION SECONDS    the sources; the version; its time, so that the same sources make the same text
"""
import hashlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path

# What the libraries that meson.build names are under.
LICENSES = {"libpq": "PostgreSQL", "libevent": "BSD-3-Clause", "libevent_pthreads": "BSD-3-Clause", "libcjson": "MIT", "libcurl": "curl"}
NOTHING_SAID = {"downloadLocation": "NOASSERTION", "copyrightText": "NOASSERTION"}


def say(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def debian_package(module):
    """Name, version and architecture of the package with the shared object that the linker takes, on a Debian."""
    name = re.search(r"-l(\S+)", say("pkg-config", "--libs-only-l", module))
    link = Path(say("pkg-config", "--variable=libdir", module)) / f"lib{name[1] if name else module}.so"
    owner = say("dpkg", "-S", str(link.resolve())).split(":")[0] if link.exists() else ""
    return say("dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}\n", owner).split() if owner else None


def library(module):
    version = say("pkg-config", "--modversion", module)
    if not version:
        raise SystemExit(f"pkg-config does not know {module}. Run scripts/deps.")
    package = {"SPDXID": f"SPDXRef-{module.replace('_', '-')}", "name": module, "versionInfo": version, "filesAnalyzed": False,
               "licenseConcluded": LICENSES[module], "licenseDeclared": LICENSES[module], **NOTHING_SAID}
    if debian := debian_package(module):
        name, version, arch = debian
        package["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                    "referenceLocator": f"pkg:deb/debian/{name}@{version.replace(':', '%3A').replace('+', '%2B')}?arch={arch}"}]
    return package


def source(number, path, tree, terms):
    data = path.read_bytes()
    return {"SPDXID": f"SPDXRef-File-{number}", "fileName": f"./{path.relative_to(tree)}",
            "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(data).hexdigest()},
                          {"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()}],
            "licenseConcluded": terms["License"], "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": terms["Copyright"]}


def bill(tree, version, seconds):
    # One stanza for all files: one with a pattern of its own would have to be heeded here.
    stanzas = re.findall(r"^Files: (.*)\nCopyright: (.*)\nLicense: (.*)$", (tree / "debian/copyright").read_text(), re.M)
    if [files for files, _, _ in stanzas] != ["*"]:
        raise SystemExit("debian/copyright has files of another licence, which packaging/sbom.py does not know of.")
    terms = {"Copyright": f"Copyright {stanzas[0][1]}", "License": stanzas[0][2]}
    modules = [m for m in re.findall(r"dependency\('(\w+)'\)", (tree / "meson.build").read_text()) if m != "threads"]
    libraries = [library(module) for module in modules]
    files = [source(number, path, tree, terms) for number, path in
             enumerate(sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()), 1)]
    sums = sorted(f["checksums"][0]["checksumValue"] for f in files)
    code = hashlib.sha1("".join(sums).encode()).hexdigest()
    program = {"SPDXID": "SPDXRef-pgrab", "name": "pgrab", "versionInfo": version, "primaryPackagePurpose": "APPLICATION", "filesAnalyzed": True,
               "packageVerificationCode": {"packageVerificationCodeValue": code}, "licenseConcluded": terms["License"],
               "licenseDeclared": terms["License"], "licenseInfoFromFiles": ["NOASSERTION"], **NOTHING_SAID, "copyrightText": terms["Copyright"]}

    def related(one, how, other):
        return {"spdxElementId": one, "relationshipType": how, "relatedSpdxElement": other}
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"pgrab-{version}",
            "documentNamespace": f"https://pgrab.example.org/spdx/pgrab-{version}-{code}",
            "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)),
                             "creators": ["Organization: pgrab maintainers", "Tool: scripts/package sbom"]},
            "packages": [program, *libraries], "files": files,
            "relationships": [related("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-pgrab"),
                              *(related("SPDXRef-pgrab", "DYNAMIC_LINK", one["SPDXID"]) for one in libraries),
                              *(related("SPDXRef-pgrab", "CONTAINS", one["SPDXID"]) for one in files)]}


json.dump(bill(Path(sys.argv[1]).resolve(), sys.argv[2], int(sys.argv[3])), sys.stdout, indent=1)
print()
