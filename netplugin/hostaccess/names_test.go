package hostaccess

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

// Images of netplugin have no /etc/protocols: nft knows only the protocol names of its own language there.
func TestRulesNeedNoNamesOfProtocols(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() { run(t, "nft flush ruleset") })
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := "#!/bin/sh\nexec unshare -m sh -ec 'mount --bind /dev/null /etc/protocols; exec " + nft + ` "$@"' nft "$@"` + "\n"
	if err := os.WriteFile(filepath.Join(dir, "nft"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	guarded := Closed{VXLANPort: 4789, Ports: []uint16{9999}, Nodes: []netip.Addr{netip.MustParseAddr("203.0.113.1")}}
	for name, wanted := range map[string]table{
		"with a way out": tableFor(wayOut, guarded, "inb01", 2000), "infra networks only": tableForInfra(guarded, 2000),
	} {
		var r rules
		if err := r.apply(t.Context(), wanted); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
