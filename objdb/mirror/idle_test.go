package mirror

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/retry"
)

// reads returns the number of reads that a store has answered.
func reads(t *testing.T, url string) float64 {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "grpc_server_started_total{") && strings.Contains(line, `grpc_method="Range"`) {
			n, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the store does not count reads")
	return 0
}

func TestARegisteredProcessThatFollowsDoesNotRead(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	db := testdb.At(t, p.URL)
	r, err := db.Register(t.Context(), 10*time.Second, objdb.Service{ServiceName: "netplugin", HostAddr: "10.1.1.1", Port: 9000})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close(context.Background()) }()
	testkit.Eventually(t, time.Minute, "the process is registered", func() bool {
		all, err := db.Services(t.Context(), "netplugin")
		return err == nil && len(all) == 1
	})
	var mirrors []*Mirror
	for range 3 {
		m, _ := follow(t, db)
		mirrors = append(mirrors, m)
	}
	const idle = 10 * time.Second
	before := reads(t, p.URL)
	retry.Pause(t.Context(), idle)
	if n := reads(t, p.URL) - before; n > 1 {
		t.Errorf("%.0f reads in %s", n, idle)
	}
	for _, m := range mirrors {
		if !m.Connected() {
			t.Error("not connected")
		}
	}
}
