package nameserver

import (
	"net"
	"testing"

	"github.com/miekg/dns"
)

// BenchmarkAnswers measures a question with 32 clients, the clients included.
func BenchmarkAnswers(b *testing.B) {
	_, server := start(b, exampleZones(b), nil, inBlue)
	data, err := question("front.", dns.TypeA).Pack()
	if err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(16)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("udp", server)
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		buffer := make([]byte, 512)
		for pb.Next() {
			if _, err := conn.Write(data); err != nil {
				b.Error(err)
			}
			if _, err := conn.Read(buffer); err != nil {
				b.Error(err)
			}
		}
	})
}
