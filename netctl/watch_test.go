package netctl

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// startWatched serves networks that change: one exists, one is created, changed and deleted.
func startWatched(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/tenants/blue/", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"tenantName":"blue"}`) })
	mux.HandleFunc("/api/v1/networks/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("tenant") != "blue" || r.URL.Query().Get("watch") != "true" {
			http.Error(w, "not what a watch asks", http.StatusBadRequest)
			return
		}
		for i, e := range []struct {
			typ  string
			name string
		}{{"ADDED", "a-long-name"}, {"BOOKMARK", ""}, {"ADDED", "web"}, {"MODIFIED", "web"}, {"BOOKMARK", ""}, {"DELETED", "web"}} {
			object := ""
			if e.name != "" {
				object = fmt.Sprintf(`,"object":{"key":"blue:%s","tenantName":"blue","networkName":%q,"subnet":"10.7.0.0/24"}`, e.name, e.name)
			}
			fmt.Fprintf(w, `{"type":%q,"revision":%d%s}`+"\n", e.typ, i+1, object)
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// lastLine cancels once a number of lines has been written.
type lastLine struct {
	strings.Builder
	lines  int
	cancel context.CancelFunc
}

func (l *lastLine) Write(p []byte) (int, error) {
	n, err := l.Builder.Write(p)
	if strings.Count(l.String(), "\n") >= l.lines {
		l.cancel()
	}
	return n, err
}

// watched returns the output of a watch that is interrupted after some lines.
func watched(t *testing.T, line string, lines int) outcome {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	url := startWatched(t)
	stdout := &lastLine{lines: lines, cancel: cancel}
	var stderr strings.Builder
	code := Run(ctx, append([]string{"netctl", "--netmaster", url}, words(line)...), nil, stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

func TestChangesAreShownUntilInterrupted(t *testing.T) {
	for _, c := range []struct {
		line, want string
	}{
		{"get networks -t blue --watch", `Event     Tenant  Network      Nw Type  Encap type  Packet tag  Subnet       Gateway  IPv6Subnet  IPv6Gateway  Cfgd Tag
-----     ------  -------      -------  ----------  ----------  ------       -------  ----------  -----------  --------
ADDED     blue    a-long-name                       0           10.7.0.0/24
ADDED     blue    web                               0           10.7.0.0/24
MODIFIED  blue    web                               0           10.7.0.0/24
DELETED   blue    web                               0           10.7.0.0/24
`},
		{"get networks -t blue --watch-only --no-headers", `ADDED     blue    web                           0           10.7.0.0/24
MODIFIED  blue    web                           0           10.7.0.0/24
DELETED   blue    web                           0           10.7.0.0/24
`},
		{"get networks -t blue -w -o name", "network/blue:a-long-name\nnetwork/blue:web\nnetwork/blue:web\nnetwork/blue:web\n"},
		{"get network web -t blue -w -o json", strings.Repeat(
			`{"object":{"key":"blue:web","networkName":"web","subnet":"10.7.0.0/24","tenantName":"blue","link-sets":{},"links":{"Tenant":{}}},"revision":N,"type":"X"}`+"\n", 3)},
		{"get network/blue:web -w -o name", strings.Repeat("network/blue:web\n", 3)}, // the name tells the tenant
		{"get network blue:web --all -w -o name", strings.Repeat("network/blue:web\n", 3)},
		{"get network a-long-name -t blue -w -o yaml", `---
object:
  key: blue:a-long-name
  link-sets: {}
  links:
    Tenant: {}
  networkName: a-long-name
  subnet: 10.7.0.0/24
  tenantName: blue
revision: 1
type: ADDED
`},
		{"get networks -t blue -w -o csv", `Event,Tenant,Network,Nw Type,Encap type,Packet tag,Subnet,Gateway,IPv6Subnet,IPv6Gateway,Cfgd Tag
ADDED,blue,a-long-name,,,0,10.7.0.0/24,,,,
ADDED,blue,web,,,0,10.7.0.0/24,,,,
MODIFIED,blue,web,,,0,10.7.0.0/24,,,,
DELETED,blue,web,,,0,10.7.0.0/24,,,,
`},
	} {
		for _, event := range []string{`3,"type":"ADDED"`, `4,"type":"MODIFIED"`, `6,"type":"DELETED"`} {
			c.want = strings.Replace(c.want, `N,"type":"X"`, event, 1)
		}
		wantOutcome(t, c.line, watched(t, c.line, strings.Count(c.want, "\n")), outcome{code: 130, stdout: c.want})
	}
}
