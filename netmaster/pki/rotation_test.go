package pki

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/contiv/netplugin/netmaster/identity"
)

// After each step both former and new certificates are trusted by parties that are one step behind or ahead; after
// the last one the old CA is gone.
func TestAuthoritiesAreReplacedInThreeSteps(t *testing.T) {
	node := identity.Identity{Kind: identity.Node, Name: "h1"}
	by := cluster(t)
	first := by
	held := sign(t, by[Client], Leaf{Who: node, Use: x509.ExtKeyUsageClientAuth}, now)
	believes := func(a Authorities, c *x509.Certificate) bool {
		trust := Trust{Cluster: a.Cluster(), Authorities: a[Client].Bundle(), Use: x509.ExtKeyUsageClientAuth}
		_, err := trust.Verify([]*x509.Certificate{c}, now)
		return err == nil
	}
	hashes := map[string]bool{by.Hash(): true}
	for _, step := range []Step{Add, Switch, Drop} {
		if by.Step() != step {
			t.Fatalf("step %s, want %s", by.Step(), step)
		}
		next, err := by.Next(now)
		if err != nil {
			t.Fatal(err)
		}
		made := sign(t, next[Client], Leaf{Who: node, Use: x509.ExtKeyUsageClientAuth}, now)
		if !believes(next, held) || !believes(by, made) || !believes(next, made) {
			t.Errorf("%s: by whom is who believed? %t %t %t", step, believes(next, held), believes(by, made), believes(next, made))
		}
		if hashes[next.Hash()] {
			t.Errorf("%s: the hash is one of before", step)
		}
		by, held, hashes[next.Hash()] = next, made, true
	}
	if by.Step() != Add || by.Cluster() != first.Cluster() || by[API].Certificate.Equal(first[API].Certificate) {
		t.Errorf("in the end: %s, cluster %s", by.Step(), by.Cluster())
	}
	if old := sign(t, first[Client], Leaf{Who: node, Use: x509.ExtKeyUsageClientAuth}, now); believes(by, old) {
		t.Error("the old authority is believed still")
	}
}

// eachStep plays the three steps of a replacement: a directory has the former CAs,
// files are those of the next step.
func eachStep(t *testing.T, step func(by, next Authorities, files map[string]string, dir string)) {
	t.Helper()
	by := cluster(t)
	for range 3 {
		next, err := by.Next(now)
		if err != nil {
			t.Fatal(err)
		}
		files, err := next.Encode()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := by.Save(dir); err != nil {
			t.Fatal(err)
		}
		step(by, next, files, dir)
		by = next
	}
}

// An interrupted replacement of CAs leaves usable files, and the hash is the former one until all of them are
// written.
func TestAReplacementThatIsInterruptedLeavesFilesThatCanBeUsed(t *testing.T) {
	eachStep(t, func(by, next Authorities, files map[string]string, dir string) {
		order := []string{}
		for _, role := range slices.Backward(roles) {
			order = append(order, string(role)+".key", string(role)+".crt") // as Save writes them
		}
		for i, name := range order {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(files[name]), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Load(dir)
			if err != nil {
				t.Fatalf("%s: after %s: %v", by.Step(), name, err)
			}
			if want := map[bool]string{false: by.Hash(), true: next.Hash()}[i == len(order)-1]; got.Hash() != want {
				t.Errorf("%s: after %s: hash %s, want %s", by.Step(), name, got.Hash(), want)
			}
		}
	})
}

// A step that was interrupted after any of its files is done by the next one for the CAs
// that it had not come to, and for no other a second time.
func TestAStepThatWasInterruptedIsFinished(t *testing.T) {
	eachStep(t, func(by, next Authorities, files map[string]string, dir string) {
		for _, role := range slices.Backward(roles) {
			for _, name := range []string{string(role) + ".key", string(role) + ".crt"} { // as Save writes them
				left, err := Load(dir)
				if err != nil {
					t.Fatal(err)
				}
				finished, err := left.Next(now)
				if err != nil {
					t.Fatal(err)
				}
				for _, role := range roles {
					if got, want := generations(finished[role]), generations(next[role]); !slices.Equal(got, want) || finished[role].key == nil {
						t.Errorf("%s, interrupted before %s: %s has generations %v, want %v", by.Step(), name, role, got, want)
					}
					if left[role].step() != by.Step() && !slices.EqualFunc(finished[role].Bundle(), next[role].Bundle(), (*x509.Certificate).Equal) {
						t.Errorf("%s, interrupted before %s: %s was done and is done again", by.Step(), name, role)
					}
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(files[name]), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// generations are those that a bundle has, the one that signs first.
func generations(a *Authority) []int {
	all := []int{a.generation()}
	for _, other := range a.beside {
		all = append(all, other.generation())
	}
	return all
}
