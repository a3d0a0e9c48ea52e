package objdb_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/utils/fault"
)

// While a member with TLS stops, it may answer like a server without the service: that counts as an outage.
func TestAnAnswerThatIsNoneOfTheStoreMeansThatItIsAway(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	trusting := func() (*tls.Config, error) { return server.Client().Transport.(*http.Transport).TLSClientConfig, nil }
	db := testdb.Open(t, objdb.Config{Endpoints: []string{server.URL}, TLS: trusting})
	if err := db.Ping(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
}
