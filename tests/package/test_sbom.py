"""What scripts/package sbom says: by the rules of SPDX 2.3, and true."""
import hashlib
import json
import re
import subprocess

import pytest
from cluster import ROOT
from conftest import make

FORMS = {"SPDXID": r"SPDXRef-[a-zA-Z0-9.-]+", "licenseConcluded": r"[A-Za-z0-9.-]+", "licenseDeclared": r"[A-Za-z0-9.-]+"}


@pytest.fixture(scope="module")
def bill(tmp_path_factory):
    return json.loads(make("sbom", "--out", tmp_path_factory.mktemp("sbom")).read_text())


def test_its_form(bill):
    assert (bill["spdxVersion"], bill["dataLicense"], bill["SPDXID"]) == ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bill["creationInfo"]["created"])
    assert all(re.match(r"(Organization|Person|Tool): ", one) for one in bill["creationInfo"]["creators"])
    assert re.fullmatch(r"https://[^#\s]+", bill["documentNamespace"])
    parts = bill["packages"] + bill["files"]
    for part in parts:
        assert [field for field, form in FORMS.items() if field in part and not re.fullmatch(form, part[field])] == [], part
        assert part["copyrightText"]
    for package in bill["packages"]:
        assert package["name"] and package["versionInfo"] and package["downloadLocation"]
        assert package["filesAnalyzed"] == ("packageVerificationCode" in package)
    names = [part["SPDXID"] for part in [bill, *parts]]
    assert len(names) == len(set(names))
    for one in bill["relationships"]:
        assert one["relationshipType"] in ("DESCRIBES", "DYNAMIC_LINK", "CONTAINS")
        assert {one["spdxElementId"], one["relatedSpdxElement"]} <= set(names)
    sums = sorted(one["checksums"][0]["checksumValue"] for one in bill["files"])
    assert bill["packages"][0]["packageVerificationCode"]["packageVerificationCodeValue"] == hashlib.sha1("".join(sums).encode()).hexdigest()


def test_it_is_true(bill):
    files = {one["fileName"]: {c["algorithm"]: c["checksumValue"] for c in one["checksums"]} for one in bill["files"]}
    tracked = subprocess.run(["git", "-c", "safe.directory=*", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    assert {f"./{path}" for path in tracked if (ROOT / path).is_file()} <= set(files)
    source = (ROOT / "src/main.c").read_bytes()
    assert files["./src/main.c"] == {"SHA1": hashlib.sha1(source).hexdigest(), "SHA256": hashlib.sha256(source).hexdigest()}
    libraries = {one["name"]: one["versionInfo"] for one in bill["packages"][1:]}
    assert {"libpq", "libcurl", "libevent", "libcjson"} <= set(libraries)
    for name, version in libraries.items():
        assert subprocess.run(["pkg-config", "--modversion", name], capture_output=True, text=True, check=True).stdout.strip() == version
