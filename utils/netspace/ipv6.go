package netspace

import "os"

// HasIPv6 reports whether the kernel supports IPv6; it does not if it was booted with ipv6.disable=1, for
// instance.
func HasIPv6() bool {
	_, err := os.Stat("/proc/sys/net/ipv6")
	return err == nil
}
