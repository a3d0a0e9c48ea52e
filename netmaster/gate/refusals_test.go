package gate

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
)

// A node that is refused all the time causes a line for each of the first hundred refusals, and does not fill the
// logs.
func TestManyRefusalsOfANodeAreCounted(t *testing.T) {
	b := newBed(t)
	own, read := audited(t)
	g := b.open(own, func(c *Config) { c.Limits.Rate, c.Limits.Burst = 1000, 1000 })
	thief := b.through(b.join("h1", []string{"192.0.2.1"}), g)
	testkit.Eventually(t, soon, "the gate serves", func() bool { return thief.Ping(t.Context()) == nil })
	c, err := thief.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 150 {
		if _, err := c.Get(t.Context(), mastercfg.AccessRoot+"users/eve"); err == nil {
			t.Fatal("it is told")
		}
	}
	if _, err := c.Put(t.Context(), mastercfg.GlobalConfigKey, "{}"); err == nil {
		t.Fatal("it writes")
	}
	g.stop()                                                              // all lines are written
	if lines := strings.Count(read(), "\n"); lines < 100 || lines > 110 { // one more in ten seconds
		t.Errorf("%d lines", lines)
	}
}

// A refused client causes no more than a few lines, however often it connects.
func TestManyRefusedConnectionsAreCounted(t *testing.T) {
	logger, written := test.NewNullLogger()
	g := newBed(t).open(func(c *Config) { c.Log = logger.WithField("component", "gate") })
	for range 150 {
		near, far := net.Pipe()
		if _, _, err := (credentialsOf{g.Gate}).ServerHandshake(near); err == nil {
			t.Fatal("a stranger enters")
		}
		_ = far.Close()
	}
	others := func(e *logrus.Entry) bool { return !strings.Contains(e.Message, "refused") }
	if lines := len(slices.DeleteFunc(written.AllEntries(), others)); lines < 100 || lines > 110 { // one more in ten seconds
		t.Errorf("%d lines", lines)
	}
}
