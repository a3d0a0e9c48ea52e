package daemon

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// Closing a connection does not wait for a client that does not read: the accepting loop closes connections in
// favour of others.
func TestAClientThatDoesNotReadIsNotWaitedForWithGoodbye(t *testing.T) {
	own := httptest.NewTLSServer(http.NotFoundHandler()) // has a certificate
	defer own.Close()
	server, client := net.Pipe() // takes a byte when the other side reads it
	c := &connection{Conn: server, config: &tls.Config{Certificates: own.TLS.Certificates}, handshakes: newHandshakes(testkit.Quiet())}
	served := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		served <- err
	}()
	secured := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
	if _, err := secured.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_ = c.Close()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}
