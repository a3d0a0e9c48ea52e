package uplink_test

import (
	"fmt"
	"strings"
	"testing"
)

func (n *node) isPromiscuous(link string) bool {
	n.t.Helper()
	return strings.Contains(n.Exec("ip", "-o", "link", "show", link), "PROMISC")
}

// killSwitch kills ovs-vswitchd while links are its ports, and starts it again.
func (n *node) killSwitch(links ...string) {
	n.t.Helper()
	for _, link := range links {
		n.eventually(link+" is promiscuous", func() bool { return n.isPromiscuous(link) })
	}
	n.KillVswitchd()
	n.StartVswitchd()
}

// A keeper that took its predecessor's state for the original would leave links promiscuous that were not.
func TestALinkIsPromiscuousAfterwardsIfItWasSoBefore(t *testing.T) {
	for _, before := range []bool{false, true} {
		for how, part := range map[string]func(n *node){
			"by cleanup": (*node).undo,
			"as another link takes its place": func(n *node) {
				b, _ := n.keep("", "up1")
				n.says(b, "")
			},
			"by cleanup after a boot": func(n *node) {
				n.reboot(func(map[string]any) {})
				host := n.picture()
				_, stop := n.keep("", "up0")
				n.isOnBridge("after a boot", host)
				n.killSwitch("up0")
				stop()
				n.undo()
			},
		} {
			t.Run(fmt.Sprintf("it was %v, %s", before, how), func(t *testing.T) {
				t.Parallel() // it waits most of the time
				n := aHost(t)
				if before {
					n.Exec("ip", "link", "set", "up0", "promisc", "on")
				}
				host := n.picture()
				_, stop := n.keep("", "up0")
				n.isOnBridge("at first", host)
				n.killSwitch("up0")
				n.isOnBridge("with another switch", host)
				stop()
				part(n)
				n.eventually(fmt.Sprintf("promiscuous is %v", before), func() bool { return n.isPromiscuous("up0") == before })
			})
		}
	}
}
