package daemon

import (
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/test/testkit"
)

// askEvery is the pause between two requests: there is time for a renewal on a loaded machine.
const askEvery = 10 * time.Millisecond

// A follower renews its certificate while requests pass through it all the time. None of them is refused because
// its connection to the leader began with an expired certificate: they go on for longer than the life of the first
// one.
func TestNoRequestIsRefusedWhileAFollowerRenewsItsCertificate(t *testing.T) {
	storetest.Open(t)
	_, cfg := secured(t)
	token := tokenFile(t, cfg.Socket, "master")
	follower := run(t, func(c *Config) {
		c.Security = Security{Dir: filepath.Join(t.TempDir(), "pki"), Secure: true, Name: "m2", TokenFile: token, LeafLife: 20 * time.Second}
	})
	testkit.Eventually(t, time.Minute, "it has the authorities", follower.daemon.certificates.hasAuthorities)
	first := follower.daemon.certificates.current.Load()
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() {
			for count := 0; ; count++ {
				select {
				case <-stop:
					return
				case <-time.After(askEvery):
				}
				if code, answer, err := follower.try("GET", "/api/v1/tenants/", ""); err != nil || code != http.StatusOK {
					t.Errorf("request %d: %d %s, %v", count, code, answer, err)
					return
				}
			}
		})
	}
	for range 2 {
		seen := follower.daemon.certificates.current.Load()
		testkit.Eventually(t, time.Minute, "a renewal", func() bool { return follower.daemon.certificates.current.Load() != seen })
	}
	testkit.Eventually(t, time.Minute, "the first certificate has ended", func() bool { return time.Since(first.client.Leaf.NotAfter) > time.Second/2 })
	close(stop)
	asking.Wait()
}
