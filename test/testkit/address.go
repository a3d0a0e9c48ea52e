package testkit

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
)

// Ports are below the range from which the kernel takes the local ports of outgoing connections (32768 and up): a
// port of that range can be taken by any connection between its choice and its use, and while a server that a test
// killed is down. Test processes run in parallel, so each starts at a block of its own, and reserves what it
// takes.
const (
	firstPort = 10000
	ports     = 22000
	block     = 40
)

// taken counts the ports assigned to this process.
var taken atomic.Int64

// FreeAddress returns a host:port of the loopback without a listener, which no other test process is assigned
// while this one runs.
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
	return address // if none is free, the listener reports it
}

// reserve reserves an address until this process ends, by an abstract socket name in the network namespace of the
// address.
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

// FreeURL returns the http URL of a free address.
func FreeURL() string { return "http://" + FreeAddress() }
