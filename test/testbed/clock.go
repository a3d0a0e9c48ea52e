package testbed

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A process reads the time of day with code that the kernel maps into each process (vdso(7)). SetClock writes a
// detour into the process's own copy of it:
//
//	clock_gettime, gettimeofday, time  -->  the system call of that name, plus the offset
//	                                        (not for monotonic clocks such as CLOCK_MONOTONIC)
//
// The detours and the offset are in the unused part of the last page of that code. Processes that it starts have
// the machine's time.
type detour struct {
	function string
	code     []byte
	offset   int // position in code of the distance to the offset
}

// The code for amd64; the comments are in assembler.
var detours = []detour{
	{"__vdso_clock_gettime", []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xc0, // test eax, eax
		0x75, 0x13, // jnz end
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME
		0x74, 0x05, // jz add
		0x83, 0xff, 0x05, // cmp edi, CLOCK_REALTIME_COARSE
		0x75, 0x0a, // jne end
		0x48, 0x8b, 0x0d, 0, 0, 0, 0, // add: mov rcx, [offset]
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3, // end: ret
	}, 0x17},
	{"__vdso_gettimeofday", []byte{
		0xb8, 96, 0, 0, 0, // mov eax, SYS_gettimeofday
		0x0f, 0x05, // syscall
		0x48, 0x85, 0xff, // test rdi, rdi
		0x74, 0x0a, // jz end
		0x48, 0x8b, 0x0d, 0, 0, 0, 0, // mov rcx, [offset]
		0x48, 0x01, 0x0f, // add [rdi], rcx
		0xc3, // end: ret
	}, 0x0f},
	{"__vdso_time", []byte{
		0xb8, 201, 0, 0, 0, // mov eax, SYS_time
		0x0f, 0x05, // syscall
		0x48, 0x03, 0x05, 0, 0, 0, 0, // add rax, [offset]
		0x48, 0x85, 0xff, // test rdi, rdi
		0x74, 0x03, // jz end
		0x48, 0x89, 0x07, // mov [rdi], rax
		0xc3, // end: ret
	}, 0x0a},
}

const (
	detourRoom = 64             // for each, and as much for the offset before them
	spareRoom  = detourRoom * 4 // for all of it
	jumpCode   = 0xe9           // a jump by the four bytes that follow
	jumpSize   = 5
)

// SetClock sets the clock of a running process ahead of the machine's by whole seconds, or behind it, as if the
// clock of its machine had been set. Monotonic clocks are not changed.
func (p *Process) SetClock(ahead time.Duration) (err error) {
	if err := p.Suspend(); err != nil { // no thread runs the code while it is written
		return errors.Join(err, p.Resume())
	}
	return errors.Join(p.turnClock(ahead), p.Resume())
}

// turnClock is SetClock of a stopped process.
func (p *Process) turnClock(ahead time.Duration) (err error) {
	if runtime.GOARCH != "amd64" {
		return errors.New("clocks of processes are set on amd64 only")
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.PID), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	at, image, err := readVDSO(p.PID, memory)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	written, err := detoursIn(image, ahead)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	for _, w := range written {
		if _, err := memory.WriteAt(w.bytes, at+int64(w.at)); err != nil {
			return err
		}
	}
	return nil
}

// readVDSO returns the kernel's code in a process, and its address.
func readVDSO(pid int, memory io.ReaderAt) (at int64, image []byte, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, nil, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(line, "[vdso]\n") {
			continue
		}
		var end int64
		if _, err := fmt.Sscanf(line, "%x-%x", &at, &end); err != nil {
			return 0, nil, fmt.Errorf("map %q: %w", line, err)
		}
		image = make([]byte, end-at)
		_, err = memory.ReadAt(image, at)
		return at, image, err
	}
	return 0, nil, errors.New("no code of the kernel is mapped")
}

// write is new content for a part of the kernel's code.
type write struct {
	at    int
	bytes []byte
}

// detoursIn returns the writes that add the detours to the kernel's code, in order.
func detoursIn(image []byte, ahead time.Duration) (all []write, err error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	spare := len(image) - spareRoom
	all = []write{{spare, binary.LittleEndian.AppendUint64(nil, uint64(int64(ahead/time.Second)))}}
	for i, d := range detours {
		found := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == d.function })
		if found < 0 {
			return nil, fmt.Errorf("the kernel has no function %s", d.function)
		}
		from, to := int(symbols[found].Value), spare+(i+1)*detourRoom
		if image[from] != jumpCode && bytes.Count(image[spare:], []byte{0}) != spareRoom {
			return nil, errors.New("the kernel's code has no room for detours")
		}
		code := bytes.Clone(d.code)
		binary.LittleEndian.PutUint32(code[d.offset:], distance(to+d.offset+4, spare))
		all = append(all, write{to, code}, write{from, binary.LittleEndian.AppendUint32([]byte{jumpCode}, distance(from+jumpSize, to))})
	}
	return all, nil
}

// distance returns the operand by which an instruction that ends at from refers to to.
func distance(from, to int) uint32 { return uint32(int32(to - from)) }
