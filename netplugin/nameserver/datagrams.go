package nameserver

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// datagrams is a batch that one system call receives or sends. Its memory is reused for
// the next batch.
//
// The calls do not block, so they are raw: if Go's scheduler knew of them, it would wake a thread to watch them
// after each pause, which costs more than to find an answer.
type datagrams struct {
	headers []mmsghdr
	parts   []unix.Iovec
	peers   []unix.RawSockaddrInet6 // or the struct of IPv4, which is shorter
	data    [][]byte
	count   int
	sent    int // of these
}

// mmsghdr is the kernel's struct, see recvmmsg(2).
type mmsghdr struct {
	unix.Msghdr
	size uint32
}

// newDatagrams returns a batch with room for most datagrams of size bytes each.
func newDatagrams(most, size int) *datagrams {
	d := &datagrams{make([]mmsghdr, most), make([]unix.Iovec, most), make([]unix.RawSockaddrInet6, most), make([][]byte, most), 0, 0}
	for i := range d.headers {
		d.data[i] = make([]byte, size)
		d.headers[i].Name, d.headers[i].Iov = (*byte)(unsafe.Pointer(&d.peers[i])), &d.parts[i]
		d.headers[i].SetIovlen(1)
	}
	return d
}

// receive replaces the batch by the datagrams that wait in the socket. The error is EAGAIN if there are none.
func (d *datagrams) receive(fd uintptr) error {
	for i := range d.headers {
		d.headers[i].Namelen = unix.SizeofSockaddrInet6
		d.parts[i].Base = &d.data[i][0]
		d.parts[i].SetLen(len(d.data[i]))
	}
	n, err := d.call(unix.SYS_RECVMMSG, fd, d.headers)
	d.count = n
	return err
}

// at returns the content of a received datagram.
func (d *datagrams) at(i int) []byte { return d.data[i][:d.headers[i].size] }

// from returns the source address of a received datagram.
func (d *datagrams) from(i int) netip.AddrPort {
	peer := &d.peers[i]
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&peer.Port))[:])
	if peer.Family == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(peer)).Addr), port)
	}
	return netip.AddrPortFrom(netip.AddrFrom16(peer.Addr).Unmap(), port)
}

// clear empties the batch.
func (d *datagrams) clear() { d.count, d.sent = 0, 0 }

// space returns the memory for the next datagram to add.
func (d *datagrams) space() []byte { return d.data[d.count][:0] }

// add appends data to the batch, without a copy, addressed to the sender of datagram i of another batch.
func (d *datagrams) add(data []byte, to *datagrams, i int) {
	d.peers[d.count] = to.peers[i]
	d.headers[d.count].Namelen = to.headers[i].Namelen
	d.parts[d.count].Base = unsafe.SliceData(data)
	d.parts[d.count].SetLen(len(data))
	d.count++
}

// send sends the rest of the batch. It returns false if the socket's buffer is full and a part is left. A datagram
// that cannot be sent is skipped, and reported to failed.
func (d *datagrams) send(fd uintptr, failed func(i int, err error)) bool {
	for d.sent < d.count {
		n, err := d.call(unix.SYS_SENDMMSG, fd, d.headers[d.sent:d.count])
		if err == unix.EAGAIN {
			return false
		}
		if err != nil { // of the first datagram
			failed(d.sent, err)
			n = 1
		}
		d.sent += n
	}
	return true
}

// call passes headers to the kernel, and returns how many it has processed.
func (d *datagrams) call(number, fd uintptr, headers []mmsghdr) (int, error) {
	for {
		n, _, err := syscall.RawSyscall6(number, fd, uintptr(unsafe.Pointer(&headers[0])), uintptr(len(headers)), unix.MSG_DONTWAIT, 0, 0)
		switch err {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, err
		}
	}
}
