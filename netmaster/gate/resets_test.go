package gate

import (
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
)

// Calls that end properly are no resets: a busy node keeps its connection.
func TestABusyNodeKeepsItsConnection(t *testing.T) {
	logger, written := test.NewNullLogger()
	b := newBed(t)
	g := b.open(func(c *Config) {
		c.Log, c.Limits.Rate, c.Limits.Burst = logger.WithField("component", "gate"), 1000, 1000
	})
	busy := b.through(b.join("h1", []string{"192.0.2.1"}), g)
	testkit.Eventually(t, soon, "the gate serves", func() bool { return busy.Ping(t.Context()) == nil })
	c, err := busy.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * mostResets {
		if _, err := c.Get(t.Context(), mastercfg.GlobalConfigKey); err != nil {
			t.Fatal(err)
		}
	}
	g.stop() // all lines are written
	for _, e := range written.AllEntries() {
		if e.Level <= logrus.WarnLevel {
			t.Error(e.Message)
		}
	}
}
