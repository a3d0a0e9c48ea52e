package notify

import "testing"

func TestASignalIsReceivedOnceHoweverOftenItWasSent(t *testing.T) {
	s := New()
	for range 3 {
		s.Send()
	}
	<-s
	select {
	case <-s:
		t.Error("received twice")
	default:
	}
	s.Send()
	<-s
}
