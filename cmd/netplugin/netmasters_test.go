package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/test/testkit"
)

// A node is configured with one netmaster and finds the other in the registry: it reaches the state through that
// one when the first is gone, also after a restart of the agent.
func TestNetmastersThatAreRegisteredAreFollowedAndKept(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	etcd, err := embedded.Start(ctx, embedded.Config{Dir: t.TempDir(), Name: "test", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL(), NoFsync: true, Log: testkit.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = etcd.Stop(context.Background()) }()
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	defer certified.Close()
	first, closeFirst := entrance(t, certified.TLS.Certificates, etcd.ClientURLs()[0])
	second, _ := entrance(t, certified.TLS.Certificates, etcd.ClientURLs()[0])
	pool := x509.NewCertPool()
	pool.AddCert(certified.Certificate())
	open := func(urls ...string) *objdb.DB {
		db, err := objdb.Open(objdb.Config{Endpoints: urls, OneAtATime: true, Log: testkit.Quiet(), TLS: func() (*tls.Config, error) {
			return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	reached := func(db *objdb.DB) error {
		_, _, err := db.List(ctx, objdb.ServicePrefix)
		return err
	}

	o := &options{masters: []string{"https://" + first}, join: joinOptions{dir: t.TempDir()}}
	db := open(o.masters...)
	registration, err := db.Register(ctx, time.Minute, netmasterAt(t, first), netmasterAt(t, second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = registration.Close(context.Background()) }()
	testkit.Eventually(t, 30*time.Second, "both netmasters are registered", func() bool {
		addresses, err := registered(ctx, db)
		return err == nil && len(addresses) == 2
	})
	var following sync.WaitGroup
	defer following.Wait()
	followed, stop := context.WithCancel(ctx)
	defer stop()
	following.Go(func() { _ = followMasters(o, db)(followed) })
	want := []string{"https://" + second}
	testkit.Eventually(t, 10*time.Second, "the other netmaster is kept", func() bool { return slices.Equal(recallMasters(o), want) })
	if got := db.Endpoints(); !slices.Equal(got, append(slices.Clone(o.masters), want...)) {
		t.Errorf("the state is reached at %q", got)
	}

	closeFirst()
	testkit.Eventually(t, 30*time.Second, "the state is reached through the other netmaster", func() bool { return reached(db) == nil })
	again := open(append(slices.Clone(o.masters), recallMasters(o)...)...)
	testkit.Eventually(t, 30*time.Second, "it is so after a restart", func() bool { return reached(again) == nil })
}

// netmasterAt is the registration of a netmaster.
func netmasterAt(t *testing.T, address string) objdb.Service {
	t.Helper()
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return objdb.Service{ServiceName: mastercfg.MasterService, HostAddr: host, Port: port}
}

// entrance is an address at which etcd speaks TLS, until it is closed with all of its connections.
func entrance(t *testing.T, certs []tls.Certificate, to string) (address string, closeIt func()) {
	t.Helper()
	etcd, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certs, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			tasks.Go(func() { pass(ctx, conn, etcd.Host) })
		}
	})
	closeIt = sync.OnceFunc(func() {
		_ = l.Close()
		cancel()
		tasks.Wait()
	})
	t.Cleanup(closeIt)
	return l.Addr().String(), closeIt
}

// pass joins a connection with an address until one of them closes, or ctx ends.
func pass(ctx context.Context, conn net.Conn, address string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	other, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		_ = conn.Close()
		return
	}
	var ways sync.WaitGroup
	for to, from := range map[net.Conn]net.Conn{conn: other, other: conn} {
		ways.Go(func() {
			defer cancel()
			_, _ = io.Copy(to, from)
		})
	}
	<-ctx.Done()
	_, _ = conn.Close(), other.Close()
	ways.Wait()
}
