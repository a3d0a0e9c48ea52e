package vlanlink

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// instruction is an instruction of the kernel's virtual machine, see bpf(2). Register 1 has the packet when a
// program begins, register 0 the verdict when it ends.
type instruction struct {
	code      uint8
	registers uint8 // low half the destination, high half the source
	offset    int16
	value     int32
}

func load32(dst, src uint8, offset int16) instruction {
	return instruction{0x61, dst | src<<4, offset, 0}
}
func set(dst uint8, value int32) instruction { return instruction{0xb7, dst, 0, value} }
func and(dst uint8, value int32) instruction { return instruction{0x57, dst, 0, value} }
func call(helper int32) instruction          { return instruction{0x85, 0, 0, helper} }
func exit() instruction                      { return instruction{0x95, 0, 0, 0} }

// skipIfEqual jumps over the next instructions.
func skipIfEqual(reg uint8, value int32, skip int16) instruction {
	return instruction{0x15, reg, skip, value}
}

// Offsets in struct __sk_buff, helper functions and verdicts of linux/bpf.h and
// linux/pkt_cls.h.
const (
	fieldVLANPresent = 20
	fieldVLANTCI     = 24

	helperVLANPush = 18
	helperVLANPop  = 19
	helperRedirect = 23

	nextFilter = -1
	drop       = 2
)

// push pushes a tag on every frame and sends it out of a link.
func push(vlan uint16, link int) []instruction {
	// The helper expects the protocol in network byte order.
	protocol := binary.NativeEndian.Uint16([]byte{0x81, 0x00})
	return slices.Concat([]instruction{set(2, int32(protocol)), set(3, int32(vlan)), call(helperVLANPush)}, redirect(link))
}

// pop removes the tag of the frames of a VLAN and sends them out of a link.
func pop(vlan uint16, link int) []instruction {
	return slices.Concat(ofTagged(), []instruction{
		load32(2, 1, fieldVLANTCI),
		and(2, 0x0fff),
		skipIfEqual(2, int32(vlan), 2),
		set(0, nextFilter), exit(),
		call(helperVLANPop),
	}, redirect(link))
}

// dropTagged drops tagged frames.
func dropTagged() []instruction {
	return slices.Concat(ofTagged(), []instruction{set(0, drop), exit()})
}

// ofTagged passes untagged frames to the next filter.
func ofTagged() []instruction {
	return []instruction{
		load32(2, 1, fieldVLANPresent),
		skipIfEqual(2, 1, 2),
		set(0, nextFilter), exit(),
	}
}

// redirect sends the frame out of a link; its result is the verdict.
func redirect(link int) []instruction {
	return []instruction{set(1, int32(link)), set(2, 0), call(helperRedirect), exit()}
}

// loadTries bounds the attempts to load a program: the kernel's verifier gives up when a signal arrives for the
// thread, and the Go runtime sends itself many on a busy machine.
const loadTries = 100

// load loads a tc program into the kernel, and returns a descriptor that holds it.
func load(program []instruction) (fd int, err error) {
	license, log := []byte("GPL\x00"), make([]byte, 1<<16)
	attr := struct { // the beginning of union bpf_attr
		kind, count  uint32
		instructions uint64
		license      uint64
		logLevel     uint32
		logSize      uint32
		log          uint64
	}{
		kind: unix.BPF_PROG_TYPE_SCHED_CLS, count: uint32(len(program)), logLevel: 1, logSize: uint32(len(log)),
		instructions: address(&program[0]), license: address(&license[0]), log: address(&log[0]),
	}
	var r uintptr
	var errno unix.Errno
	for range loadTries {
		r, _, errno = unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		if errno != unix.EAGAIN {
			break
		}
	}
	runtime.KeepAlive(program)
	runtime.KeepAlive(license)
	runtime.KeepAlive(log)
	if errno != 0 {
		return 0, fmt.Errorf("the kernel does not take the program: %w: %s", errno, unix.ByteSliceToString(log))
	}
	return int(r), nil
}

func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }
