package main

import (
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/drivers/bridges"
)

// The links are useless to the host after the next boot unless they are given back.
func TestANodeWithoutUplinksTakesThoseBackThatItHad(t *testing.T) {
	o := &options{runDir: t.TempDir()}
	o.node.VTEP = netip.MustParseAddr("192.0.2.1")
	driver, _, _, err := newDriver(o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, does := driver.(*bridges.Alone); !does {
		t.Errorf("the driver is a %T", driver)
	}
}
