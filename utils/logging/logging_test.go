package logging

import (
	"bytes"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

func TestJSONLogIsOneObjectPerLine(t *testing.T) {
	logger, out := logrus.New(), new(bytes.Buffer)
	logger.SetOutput(out)
	if err := (Config{Level: "warn", JSON: true, SyslogURL: DefaultSyslogURL}).Apply(logger); err != nil {
		t.Fatal(err)
	}
	logger.Info("not logged")
	logger.Warn("logged")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	if line["msg"] != "logged" {
		t.Errorf("got %v", line)
	}
}

func TestSyslogReceivesMessagesWithTheFacilityDaemon(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	logger := logrus.New()
	logger.SetOutput(new(bytes.Buffer))
	c := Config{Level: "INFO", Syslog: true, SyslogURL: "udp://" + conn.LocalAddr().String(), Tag: "netmaster"}
	if err := c.Apply(logger); err != nil {
		t.Fatal(err)
	}
	logger.Error("disk on fire")
	packet := make([]byte, 2048)
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, _, err := conn.ReadFrom(packet)
	if err != nil {
		t.Fatal(err)
	}
	// Facility daemon is 3, severity error 3.
	if text := string(packet[:n]); !strings.HasPrefix(text, "<27>") || !strings.Contains(text, "netmaster") || !strings.Contains(text, "disk on fire") {
		t.Errorf("got %q", text)
	}
}

func TestViolationsNameTheirFlag(t *testing.T) {
	for _, url := range []string{"", "udp://", "udp://host", "gopher://host:1", ":"} {
		found := Config{Level: "INFO", SyslogURL: url}.Validate()
		if len(found) != 1 || !strings.Contains(found[0].Error(), "--syslog-url") {
			t.Errorf("%q: got %v", url, found)
		}
	}
}
