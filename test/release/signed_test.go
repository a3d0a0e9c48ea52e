package release

import (
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A release is reproducible, and its checksums are signed: the signer's public key reveals alterations.
func TestAReleaseIsSigned(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	for _, name := range []string{"netmaster", "netctl", "sbom.json"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	key := filepath.Join(dir, "key")
	for _, file := range []string{key, filepath.Join(dir, "other")} {
		execute(t, dir, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file)
	}
	var sums [2][sha256.Size]byte
	folders := [2]string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	for i, folder := range folders {
		pack(t, bin, folder, key)
		data, err := os.ReadFile(archive(t, folder))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = sha256.Sum256(data)
	}
	if sums[0] != sums[1] {
		t.Error("the archive differs between two who pack it")
	}
	if err := verify(t, folders[0], key); err != nil {
		t.Error(err)
	}
	if err := verify(t, folders[0], filepath.Join(dir, "other")); err == nil {
		t.Error("it counts as signed by somebody else")
	}
	if err := os.WriteFile(archive(t, folders[0]), []byte("altered"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := verify(t, folders[0], key); err == nil {
		t.Error("an archive that was altered is taken")
	}
	if err := os.WriteFile(filepath.Join(folders[1], "SHA256SUMS"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := verify(t, folders[1], key); err == nil {
		t.Error("checksums that were altered are taken")
	}
}

// Nothing is packed that is not signed.
func TestAReleaseWithoutAKeyIsRefused(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "release")
	for _, key := range []string{"", filepath.Join(t.TempDir(), "none")} {
		cmd := packing(t.TempDir(), folder, key)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "KEY=") {
			t.Errorf("key %q: %v, %s", key, err, out)
		}
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("key %q: %s is there", key, folder)
		}
	}
}

// What could not be packed as a whole is no release: no part of it is signed, nor left where releases are.
func TestAReleaseThatCannotBePackedIsNotSigned(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	execute(t, dir, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	for program, fails := range map[string]string{
		"tar":        "echo the first part; exit 2",
		"sha256sum":  "exit 1",
		"ssh-keygen": "exit 1",
	} {
		bin, folder, broken := t.TempDir(), filepath.Join(t.TempDir(), "release"), t.TempDir()
		for _, name := range []string{"netmaster", "netctl", "sbom.json"} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte(name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(broken, program), []byte("#!/bin/sh\n"+fails+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := packing(bin, folder, key)
		cmd.Env = append(os.Environ(), "PATH="+broken+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("%s fails: there is a release: %s", program, out)
		}
		if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) > 0 {
			t.Errorf("%s fails: there is %v", program, left)
		}
	}
}

func packing(bin, folder, key string) *exec.Cmd {
	cmd := exec.Command("scripts/release.sh", bin, folder, "1", key, "netmaster", "netctl")
	cmd.Dir = filepath.Join("..", "..")
	return cmd
}

func pack(t *testing.T, bin, folder, key string) {
	t.Helper()
	if out, err := packing(bin, folder, key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func archive(t *testing.T, folder string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*.tar.gz"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", folder, found, err)
	}
	return found[0]
}

// verify carries out the steps for users in docs/security.md.
func verify(t *testing.T, folder, signer string) error {
	t.Helper()
	public, err := os.ReadFile(signer + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	signers := filepath.Join(t.TempDir(), "signers")
	if err := os.WriteFile(signers, append([]byte("contiv "), public...), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-ec", `ssh-keygen -Y verify -f "$0" -I contiv -n contiv-release -s SHA256SUMS.sig <SHA256SUMS; sha256sum --check --strict SHA256SUMS`, signers)
	cmd.Dir = folder
	return cmd.Run()
}
