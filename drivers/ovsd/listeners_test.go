package ovsd_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/test/testkit"
)

// The driver reports the addresses at which other programs may control the switch, however they were configured:
// in the database, of any bridge, or by an option of ovsdb-server.
func TestASwitchTellsWhoElseChangesIt(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(everything())
	tells := func(want ...drivers.Listener) {
		t.Helper()
		testkit.Eventually(t, time.Minute, "the listeners are told", func() bool {
			got, err := r.Listeners(t.Context())
			return err == nil && cmp.Equal(want, got)
		})
	}
	tells()
	n.Vsctl("set-manager", "ptcp:6640:127.0.0.1", "punix:"+n.RunDir+"/more.sock")
	n.Vsctl("add-br", "br0", "--", "set", "Bridge", "br0", "datapath_type=netdev", "--", "set-controller", "br0", "ptcp:6653", "--", "set-controller", "contivVxlanBridge", "ptcp:6654:[::1]")
	ofDatabase := []drivers.Listener{{Target: "ptcp:6640:127.0.0.1"}, {Target: "ptcp:6653", Bridge: "br0"}, {Target: "ptcp:6654:[::1]", Bridge: "contivVxlanBridge"}}
	tells(ofDatabase...)
	n.Exec("ovs-appctl", "-t", n.RunDir+"/ovsdb-server.ctl", "ovsdb-server/add-remote", "ptcp:0:[::1]")
	n.Exec("ovs-appctl", "-t", n.RunDir+"/ovsdb-server.ctl", "ovsdb-server/add-remote", "db:Open_vSwitch,Open_vSwitch,manager_options")
	tells(append([]drivers.Listener{{Target: "ptcp:0:[::1]", Option: true}}, ofDatabase...)...)
	n.Exec("ovs-appctl", "-t", n.RunDir+"/ovsdb-server.ctl", "ovsdb-server/remove-remote", "ptcp:0:[::1]")
	n.Vsctl("del-manager", "--", "del-controller", "contivVxlanBridge")
	tells(ofDatabase[1])
}
