package netctl

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Interrupted is the cause of a context that ends because of a signal.
type Interrupted syscall.Signal

func (i Interrupted) Error() string { return syscall.Signal(i).String() }

// interruptedCode returns the exit code of shells for the end by a signal.
func interruptedCode(ctx context.Context) int {
	var by Interrupted
	if errors.As(context.Cause(ctx), &by) {
		return exitSignal + int(by)
	}
	return exitSignal + int(syscall.SIGINT)
}

// terminalFile is a file whose reads end with ctx: a user who is asked for input must be able to interrupt.
type terminalFile struct {
	*os.File
	ctx context.Context
}

// interruptible makes reads of a file, terminal or pipe end with ctx.
func interruptible(ctx context.Context, in io.Reader) io.Reader {
	if file, ok := in.(*os.File); ok {
		return terminalFile{file, ctx}
	}
	return in
}

// Read waits for input or for the end of the context.
func (f terminalFile) Read(p []byte) (int, error) {
	ended, end, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer ended.Close()
	stop := context.AfterFunc(f.ctx, func() { end.Close() })
	defer func() {
		if stop() {
			end.Close()
		}
	}()
	either := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}, {Fd: int32(ended.Fd()), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(either, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, os.NewSyscallError("poll", err)
		}
		switch {
		case either[1].Revents != 0:
			return 0, context.Cause(f.ctx)
		case either[0].Revents != 0:
			return f.File.Read(p)
		}
	}
}
