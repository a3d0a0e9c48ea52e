package daemon

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// open returns a directory that other users than root can enter.
func open(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "netmaster-")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// inode returns the inode of a file.
func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var is unix.Stat_t
	if err := unix.Lstat(path, &is); err != nil {
		t.Fatal(err)
	}
	return is.Ino
}

// The socket of a dead netmaster is replaced; that of a live one is not, nor is a file that is no socket.
func TestASocketIsReplacedWhereNobodyServesIt(t *testing.T) {
	storetest.Open(t)
	path := filepath.Join(t.TempDir(), "netmaster.sock")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false) // as of a killed process
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	n, cfg := founding(t, in(mastercfg.SecurityEnforced), func(s *Security) { s.Socket = path })
	live := inode(t, path)
	serves := func() {
		t.Helper()
		if said := n.security(cfg); !strings.Contains(said, `"enforced"`) {
			t.Errorf("root on the socket: %s", said)
		}
		if inode(t, path) != live {
			t.Error("the socket is another one")
		}
	}
	serves()
	if is, err := os.Stat(path); err != nil || is.Mode().Perm() != 0o600 {
		t.Errorf("the socket is for %v: %v", is.Mode(), err)
	}

	start := func(path string, change ...func(*Config)) error {
		t.Helper()
		other := config(testkit.FreeAddress())
		other.Security = Security{Dir: filepath.Join(t.TempDir(), "pki"), Name: "m2", Socket: path}
		for _, c := range change {
			c(&other)
		}
		d, err := New(other)
		if err != nil {
			t.Fatal(err)
		}
		serving, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a netmaster that is not refused serves until then
		defer cancel()
		return d.Run(serving)
	}
	if err := start(path); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "socket "+path+": another server is listening") {
		t.Errorf("another netmaster with this socket: %v", err)
	}
	serves()
	file := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := start(file); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "socket "+file+": a file that is no socket is in the way") {
		t.Errorf("where there is a file: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("the file has %q: %v", text, err)
	}

	// A netmaster that does not require its socket serves at its addresses, and leaves the socket to the other.
	log, told := testkit.Recorded()
	without := run(t, func(c *Config) {
		c.Log, c.Security = log, Security{Dir: filepath.Join(t.TempDir(), "pki"), Name: "m3", Socket: path, SocketOptional: true}
	})
	serves()
	if !strings.Contains(told.String(), "another server is listening") {
		t.Errorf("that it has no socket is not told: %s", told.String())
	}
	without.shut()
	serves()
}

// nobody is a user without files.
const nobody = 65534

// as calls a function as another user, without root's rights.
func as(uid int, do func()) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the task
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			done <- fmt.Errorf("become user %d: %w", uid, errno)
			return
		}
		do()
		close(done)
	}()
	if err := <-done; err != nil {
		panic(err)
	}
}

// connectAs connects with a socket as another user.
func connectAs(t *testing.T, uid int, path string) (conn net.Conn, err error) {
	t.Helper()
	as(uid, func() {
		var fd int
		if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		file := os.NewFile(uintptr(fd), path)
		defer file.Close()
		if err = unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err == nil {
			conn, err = net.FileConn(file)
		}
	})
	return conn, err
}

// The socket is for root: other users cannot connect to it, and a connection alone does not make a client root.
func TestOnlyRootIsRootOnTheSocket(t *testing.T) {
	testkit.NeedsMachine(t)
	db := storetest.Open(t)
	path := filepath.Join(open(t), "netmaster.sock")
	log, written := audited(t)
	n := run(t, log, func(c *Config) {
		c.Security = Security{Dir: filepath.Join(t.TempDir(), "pki"), Founding: mastercfg.SecurityEnforced, Name: "m1", Socket: path, PlainLoopback: "admin"}
	})
	leader(t, n)
	if conn, err := connectAs(t, nobody, path); err == nil || !strings.Contains(err.Error(), fs.ErrPermission.Error()) {
		if conn != nil {
			conn.Close()
		}
		t.Errorf("another user connects: %v", err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // its mode was opened to all
		t.Fatal(err)
	}
	before := storetest.Dump(t, db)
	for _, c := range [][3]string{{"GET", "/api/v1/tenants/", ""}, {"POST", "/api/v1/tenants/blue/", `{"tenantName":"blue"}`}, {"POST", mastercfg.SecurityPath + "/relax", ""},
		{"POST", mastercfg.JoinTokensPath, `{"role":"master"}`}} {
		conn, err := connectAs(t, nobody, path)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}
		if code, answer := exchange(t, client, c[0], "http://localhost"+c[1], c[2]); code != http.StatusForbidden || !strings.Contains(answer, "plain HTTP is not served here") {
			t.Errorf("another user asks %s %s: %d %s", c[0], c[1], code, answer)
		}
	}
	if !maps.Equal(before, storetest.Dump(t, db)) {
		t.Error("another user has changed something")
	}
	if code, answer := exchange(t, overSocket(t, path), "GET", "http://localhost/api/v1/tenants/", ""); code != http.StatusOK {
		t.Errorf("root: %d %s", code, answer)
	}
	writesDown(t, written, `"principal":"nobody","how":"nothing"`, `"key":"/api/v1/tenants/","decision":"denied","reason":"plain HTTP is not served here`, `"status":403`)
}
