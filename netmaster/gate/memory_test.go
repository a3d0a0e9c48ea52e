package gate

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
)

// crowd are nodes in another process, so that their memory does not count as the gate's.
type crowd struct {
	URL   string
	CA    []byte
	Nodes []crowdNode
}

type crowdNode struct {
	Host      string
	Cert, Key []byte
}

// crowdRuns marks a process that runs a crowd, not a test.
const crowdRuns = "CONTIV_TEST_CROWD"

// runCrowd reads the nodes that it represents, and makes all of them follow what agents follow, and hold a lease.
// It prints when that is so, and ends with its input.
func runCrowd(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var c crowd
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.CA)
	ctx, end := context.WithCancel(context.Background())
	defer end()
	var beginning, following errgroup.Group
	beginning.SetLimit(8)
	for i, n := range c.Nodes {
		beginning.Go(func() error {
			own, err := tls.X509KeyPair(n.Cert, n.Key)
			if err != nil {
				return err
			}
			db, err := objdb.Open(objdb.Config{Endpoints: []string{c.URL}, OneAtATime: true, Log: testkit.Quiet(), RequestTimeout: time.Minute, TLS: func() (*tls.Config, error) {
				return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Certificates: []tls.Certificate{own}}, nil
			}})
			if err != nil {
				return err
			}
			var mirrors []*mirror.Mirror
			for _, prefix := range []string{mastercfg.StateRoot, mastercfg.GlobalRoot, objdb.ServicePrefix} {
				m := mirror.New(db, prefix, func(mirror.Batch) {})
				mirrors = append(mirrors, m)
				following.Go(func() error { return m.Run(ctx) })
			}
			if _, err := db.Register(ctx, time.Minute, entry(n.Host, crowdAddress(i))); err != nil {
				return err
			}
			return testkit.Until(ctx, n.Host+" has listed", func() bool { return mirrors[0].Synced() && mirrors[1].Synced() && mirrors[2].Synced() })
		})
	}
	if err := beginning.Wait(); err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	_, err = io.Copy(io.Discard, lines)
	end()
	_ = following.Wait() // they were cancelled
	return err
}

func crowdAddress(i int) string { return fmt.Sprintf("198.51.%d.%d", i/250, i%250+1) }

// use is the memory in use by this process after garbage collection.
type use struct{ heap, stacks, goroutines int }

func inUse() use {
	for range 3 { // pools retain their content for one more, and stacks shrink by half with each
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return use{int(m.HeapAlloc), int(m.StackInuse), runtime.NumGoroutine()}
}

// The memory of a netmaster for a node without changes: it has listed, follows what agents follow, and has a
// lease. In a netmaster the heap has up to twice that before the collector runs.
func BenchmarkANodeConnected(bm *testing.B) {
	const nodes = 200
	b := newBed(bm)
	b.network("blue", "net")
	g := b.open()
	c := crowd{URL: g.url, CA: pki.EncodeCertificates(b.all[pki.API].Certificate)}
	for i := range nodes {
		n := b.join(fmt.Sprintf("crowd%03d", i), []string{crowdAddress(i)})
		key, err := pki.EncodeKey(n.own.PrivateKey.(*ecdsa.PrivateKey))
		if err != nil {
			b.Fatal(err)
		}
		c.Nodes = append(c.Nodes, crowdNode{n.host, pki.EncodeCertificates(n.own.Leaf), key})
	}
	one := b.through(b.join("first", []string{"192.0.2.1"}), g) // with it the gate follows the state
	testkit.Eventually(b, soon, "the gate serves", func() bool { return one.Ping(b.Context()) == nil })
	before := inUse()

	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), crowdRuns+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		err = json.NewEncoder(in).Encode(c)
	}
	if err != nil {
		b.Fatal(err)
	}
	if said := bufio.NewScanner(out); !said.Scan() || said.Text() != "ready" {
		b.Fatalf("the crowd says %q", said.Text())
	}
	var with use
	for bm.Loop() {
		with = inUse()
	}
	for unit, more := range map[string]int{"heap-B/node": with.heap - before.heap, "stack-B/node": with.stacks - before.stacks, "goroutines/node": with.goroutines - before.goroutines} {
		bm.ReportMetric(float64(more)/nodes, unit)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		b.Error(err)
	}
}
