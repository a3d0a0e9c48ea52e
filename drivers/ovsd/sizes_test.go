package ovsd

import (
	"encoding/json"
	"net"
	"path/filepath"
	"testing"

	"github.com/sirupsen/logrus"
)

// control creates a control socket at which answer is returned; "": a socket without a listener.
func control(t *testing.T, path, answer string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if answer == "" {
		l.SetUnlinkOnClose(false)
		l.Close()
		return
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			var request struct{ Method string }
			if err := json.NewDecoder(conn).Decode(&request); err != nil || request.Method != "dpif/show-dp-features" {
				t.Errorf("request %+v, error %v", request, err)
			}
			_, _ = conn.Write([]byte(answer)) // the client may have gone
			conn.Close()
		}
	}()
}

func TestTheDatapathIsAskedOverTheControlSocket(t *testing.T) {
	const yes, no = `{"id":0,"error":null,"result":"Masked set action: Yes\nCheck pkt length action: Yes\n"}`, `{"id":0,"error":null,"result":"Check pkt length action: No\n"}`
	for name, c := range map[string]struct {
		answers map[string]string // by socket
		can     bool
		fails   bool
	}{
		"yes":                     {map[string]string{"1": yes}, true, false},
		"no":                      {map[string]string{"1": no}, false, false},
		"one is left from before": {map[string]string{"1": "", "2": yes}, true, false},
		"it runs no more":         {map[string]string{"1": ""}, false, true},
		"it has none yet":         {nil, false, true},
		"no such bridge":          {map[string]string{"1": `{"id":0,"error":"no such bridge","result":null}`}, false, true},
		"garbage":                 {map[string]string{"1": "garbage"}, false, true},
		"half an answer":          {map[string]string{"1": yes[:40]}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &Driver{config: Config{RunDir: t.TempDir(), Bridge: "contivBridge"}, log: logrus.NewEntry(logrus.New())}
			d.status.Datapath = DatapathNetdev
			for number, answer := range c.answers {
				control(t, filepath.Join(d.config.RunDir, "ovs-vswitchd."+number+".ctl"), answer)
			}
			if can, err := d.comparesSizes(t.Context()); can != c.can || (err != nil) != c.fails {
				t.Errorf("%v, error %v; want %v, an error: %v", can, err, c.can, c.fails)
			}
		})
	}
}

func TestSizesAreNotComparedWhereNobodyWantsIt(t *testing.T) {
	d := &Driver{config: Config{RunDir: t.TempDir(), Bridge: "contivBridge", NoSizeChecks: true}, log: logrus.NewEntry(logrus.New())}
	if can, err := d.comparesSizes(t.Context()); can || err != nil {
		t.Errorf("%v, error %v; want no, without a question", can, err)
	}
}

func TestEarlyKernelsTakeManySegmentsForOnePacket(t *testing.T) {
	for release, want := range map[string]bool{
		"4.18.0-553.el8_10.x86_64": false,
		"5.4.0-216-generic":        false,
		"5.7.19\n":                 false,
		"5.8.0\n":                  true,
		"5.10.0-35-amd64":          true,
		"6.1.0-37-amd64\n":         true,
		"unknown":                  false,
	} {
		if got := comparesSegments(release); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}
