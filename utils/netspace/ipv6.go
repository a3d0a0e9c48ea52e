package netspace

import "os"

// HasIPv6 tells whether the kernel speaks IPv6 at all; it does not if it was started with ipv6.disable=1, for instance.
func HasIPv6() bool {
	_, err := os.Stat("/proc/sys/net/ipv6")
	return err == nil
}
