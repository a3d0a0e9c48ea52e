package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
)

// known is the text that this test looks for in the store: in the model, and in the state.
const known = "203.0.113.77"

// With --encrypt-values no content of objects is in the files of the store, from the first write of a new cluster
// on. Without it values are decrypted again, with another key they are encrypted again, and clients of objects do
// not notice.
func TestValuesOfTheStoreAreEncrypted(t *testing.T) {
	c := closedWith(t, "https:", "--encrypt-values")
	c.byRoot("POST", "/api/v1/tenants/blue/", `{"tenantName":"blue"}`)
	c.byRoot("POST", "/api/v1/networks/blue:net/", `{"tenantName":"blue","networkName":"net","encap":"vxlan","subnet":"10.211.77.0/24","gateway":"10.211.77.1"}`)
	c.byRoot("POST", "/api/v1/policys/blue:web/", `{"tenantName":"blue","policyName":"web"}`)
	c.byRoot("POST", "/api/v1/rules/blue:web:1/", `{"tenantName":"blue","policyName":"web","ruleId":"1","priority":1,"direction":"in","action":"deny","protocol":"tcp","fromIpAddress":"`+known+`"}`)
	c.byRoot("POST", "/api/v1/endpointGroups/blue:web/", `{"tenantName":"blue","networkName":"net","groupName":"web","policies":["web"]}`)
	first := c.keyOfAll("sealed")
	if len(first) != 1 || first[0] == "" {
		t.Fatalf("values are sealed with keys %q, want one", first)
	}
	files, err := contents(filepath.Join(c.dir, "etcd"))
	if err != nil || !strings.Contains(files, "/contiv.io/obj/modeldb/rule/blue:web:1") {
		t.Fatalf("the store's files do not name the rule: %v", err)
	}
	for _, text := range []string{known, "10.211.77.", `"networkName"`} {
		if strings.Contains(files, text) {
			t.Errorf("%s is in the store's files", text)
		}
	}

	c.again(slices.DeleteFunc(slices.Clone(c.flags), func(flag string) bool { return flag == "--encrypt-values" }))
	if plain := c.keyOfAll(""); len(plain) != 1 || plain[0] != "" {
		t.Errorf("without the flag values are sealed with keys %q", plain)
	}
	c.again(append(c.flags, "--encrypt-values"))
	if again := c.keyOfAll("sealed"); !slices.Equal(again, first) {
		t.Errorf("with it again values are sealed with keys %q, want %q", again, first)
	}
	for range 2 { // the second step waits until the first is known
		testkit.Eventually(t, time.Minute, "a step to another key is done", func() bool {
			code, _, err := c.ask(c.root, "", "POST", mastercfg.RotateKeysPath, "{}")
			return err == nil && code == http.StatusOK
		})
	}
	var last []string
	testkit.Eventually(t, time.Minute, "values are sealed with the other key", func() bool {
		last = c.keyOfAll("sealed")
		return len(last) == 1 && last[0] != first[0]
	})
	c.withoutKeyring()
	if rule := c.byRoot("GET", "/api/v1/rules/blue:web:1/", ""); !strings.Contains(rule, known) {
		t.Errorf("the rule is %s", rule)
	}
}

// withoutKeyring restarts netmaster without the keyring: it logs what it needs, and does not take the store for
// empty. With the file restored it leads.
func (c *closedOne) withoutKeyring() {
	c.Helper()
	ring := filepath.Join(c.dir, "pki", keyring.Name)
	c.kill()
	if err := os.Rename(ring, ring+".away"); err != nil {
		c.Fatal(err)
	}
	c.start()
	testkit.Eventually(c.T, time.Minute, "it says that it needs the keyring", func() bool {
		return strings.Contains(c.log.String(), "copy the keyring of a netmaster") || strings.Contains(c.log.String(), "copy that of a netmaster")
	})
	if _, err := os.Stat(ring); err == nil {
		c.Error("it has made another keyring, which opens nothing")
	}
	if err := os.Rename(ring+".away", ring); err != nil {
		c.Fatal(err)
	}
	leader(c.T, time.Minute, []*process{c.process})
}

// again restarts it with flags.
func (c *closedOne) again(flags []string) {
	c.Helper()
	c.kill()
	c.flags = flags
	c.start()
	leader(c.T, time.Minute, []*process{c.process})
}

// keyOfAll waits until security status has this state of values, checks that objects are unchanged, and returns
// the keys that values are encrypted with, sorted; empty: none.
func (c *closedOne) keyOfAll(says string) (keys []string) {
	c.Helper()
	testkit.Eventually(c.T, time.Minute, "security status says "+says, func() bool {
		var status contivmodel.SecurityStatus
		answer := c.byRoot("GET", mastercfg.SecurityPath, "")
		return json.Unmarshal([]byte(answer), &status) == nil && status.Values == says
	})
	if rule := c.byRoot("GET", "/api/v1/rules/blue:web:1/", ""); !strings.Contains(rule, known) {
		c.Errorf("the rule is %s", rule)
	}
	pki := func(name string) string { return filepath.Join(c.dir, "pki", name) }
	store, err := objdb.Open(objdb.Config{Endpoints: []string{c.store}, CAFile: pki("store-ca.crt"), CertFile: pki("store.crt"), KeyFile: pki("store.key"), Log: testkit.Quiet()})
	if err != nil {
		c.Fatal(err)
	}
	defer store.Close()
	for _, root := range []string{mastercfg.ModelRoot, mastercfg.StateRoot} {
		stored, _, err := store.List(objdb.AsStored(context.Background()), root)
		if err != nil || len(stored) == 0 {
			c.Fatalf("%s: %d values, %v", root, len(stored), err)
		}
		for _, kv := range stored {
			key := ""
			if objdb.IsSealed(kv.Key, kv.Value) {
				key = strings.Split(string(kv.Value[:40]), ":")[2]
			}
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
