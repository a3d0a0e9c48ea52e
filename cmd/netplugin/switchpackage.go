package main

import (
	"context"
	"time"

	"github.com/contiv/netplugin/utils/dpkg"
)

// switchPackage is the package that ovs-vswitchd is in, as a database of dpkg knows it.
type switchPackage struct{ database string }

const switchPackageName = "openvswitch-switch"

// version is empty if it is not installed.
func (p switchPackage) version() (string, error) {
	return dpkg.Installed(p.database, switchPackageName)
}

// replaced tells whether it was installed after the ovs-vswitchd that runs began; false where the one or the other is not known.
func (p switchPackage) replaced(began func(context.Context) (time.Time, error)) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		since, err := began(ctx)
		if err != nil || since.IsZero() {
			return false, err
		}
		unpacked, err := dpkg.Unpacked(p.database, switchPackageName)
		return unpacked.After(since), err
	}
}
