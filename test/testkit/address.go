package testkit

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
)

// Ports come from below the range that the kernel takes the local ports of
// outgoing connections from (32768 and up): a port of that range can be taken
// by any connection between its choice and its use, and while a server that a
// test killed is down. Test processes run side by side, so each begins at a
// block of its own, and reserves what it takes.
const (
	firstPort = 10000
	ports     = 22000
	block     = 40
)

// taken counts the ports that this process was given.
var taken atomic.Int64

// FreeAddress is a host:port of the loopback that nobody listens on, and that
// no other process of tests is given while this one runs.
func FreeAddress() string {
	address := ""
	for range ports {
		port := firstPort + (int64(os.Getpid())*block+taken.Add(1))%ports
		address = fmt.Sprintf("127.0.0.1:%d", port)
		if !reserve(address) {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			break
		}
	}
	return address // if none is free, who listens on it says so
}

// reserve takes an address until this process ends, by an abstract name in the network namespace
// whose address it is.
func reserve(address string) bool {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: "@contiv-test-" + address}); err != nil {
		_ = syscall.Close(fd)
		return false
	}
	return true
}

// FreeURL is the http URL of a free address.
func FreeURL() string { return "http://" + FreeAddress() }
