package main

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/logins"
)

// guesses are logins with wrong passwords that a process of their own sends.
type guesses struct {
	Address string // of the netmaster
	CA      []byte // of its certificate, PEM
	Sources int    // each another address of the loopback, with connections of its own
	Count   int    // of all sources
	Rate    int    // a second, of all sources, whether or not earlier ones have been answered
}

// told is the number of guesses by status of the answer. Failed has those without an answer.
type told struct {
	Codes  map[int]int
	Failed []string
}

// send has another process send all guesses. One that yields leaves the processors to its victims, as if it had its
// own elsewhere. On a busy machine its connections then stand still for so long that netmaster closes them.
func (g guesses) send(t *testing.T, yields bool) (answered told) {
	t.Helper()
	what, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "BE_GUESSER=1")
	if yields {
		cmd.Env = append(cmd.Env, "GUESSER_YIELDS=1")
	}
	cmd.Stdin = strings.NewReader(string(what))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &answered)
	}
	if err != nil {
		t.Errorf("those who guess: %v", err)
	}
	return answered
}

// beGuesser is the main function of the other process: it reads guesses from in, sends them and writes the answers
// to out.
func beGuesser(in io.Reader, out io.Writer) error {
	if os.Getenv("GUESSER_YIELDS") != "" {
		accounts.GiveWay()
	}
	var g guesses
	if err := json.NewDecoder(in).Decode(&g); err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(g.CA) {
		return fmt.Errorf("no certificate: %q", g.CA)
	}
	var clients []*http.Client
	for i := range g.Sources {
		clients = append(clients, clientFrom(fmt.Sprintf("127.0.7.%d", i+1), pool))
	}
	var sending sync.WaitGroup
	var mu sync.Mutex
	answered := told{Codes: map[int]int{}}
	tick := time.NewTicker(time.Second / time.Duration(g.Rate))
	defer tick.Stop()
	for n := range g.Count {
		sending.Go(func() { // a guesser does not await the answer to the last one
			name := "victim"
			if (n+n/g.Sources)%2 == 1 { // of each source every other one
				name = fmt.Sprintf("unknown%d", n) // which costs as much
			}
			code, err := guess(clients[n%g.Sources], g.Address, name, fmt.Sprintf("wrong wrong %d", n))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				answered.Failed = append(answered.Failed, err.Error())
				return
			}
			answered.Codes[code]++
		})
		<-tick.C
	}
	sending.Wait()
	return json.NewEncoder(out).Encode(answered)
}

// guess tries a password and returns the status of the answer.
func guess(client *http.Client, address, name, password string) (int, error) {
	resp, err := client.Post("https://"+address+logins.AuthPath+"/login/", "application/json",
		strings.NewReader(`{"username":"`+name+`","password":"`+password+`"}`))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
