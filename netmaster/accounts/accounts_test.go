package accounts

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/contiv/netplugin/utils/fault"
)

// cheap makes hashes that cost nothing.
var cheap = Cost{Memory: 8, Time: 1, Threads: 1}

const right = "correct horse battery"

func TestNamesAndPasswordsHaveLimits(t *testing.T) {
	for name, ok := range map[string]bool{
		"ann": true, "ann.b-c_d@example.org": true, strings.Repeat("a", MaxName): true,
		"": false, "a b": false, "a/b": false, "ä": false, "a\n": false, "*": false, ".": false, "..": false, "(cn=*)": false, strings.Repeat("a", MaxName+1): false,
	} {
		if err := CheckName(name); (err == nil) != ok || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for password, ok := range map[string]bool{
		strings.Repeat("p", MinPassword): true, strings.Repeat("p", MaxPassword): true, "pass word with ä": true,
		"": false, strings.Repeat("p", MinPassword-1): false, strings.Repeat("p", MaxPassword+1): false, "\xff\xfe" + right: false,
	} {
		err := CheckPassword(password)
		if (err == nil) != ok || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("password of %d bytes: %v", len(password), err)
		}
		if err != nil && password != "" && strings.Contains(err.Error(), password) {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestOnlyTheRightPasswordIsRight(t *testing.T) {
	h := NewHasher(cheap, nil)
	hash, err := h.Hash(t.Context(), right, 0)
	if err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=8,t=1,p=1$") {
		t.Fatalf("%q, %v", hash, err)
	}
	again, err := h.Hash(t.Context(), right, 0)
	if err != nil || again == hash {
		t.Errorf("the same password gives the same hash: %q, %v", again, err)
	}
	for password, want := range map[string]Verdict{right: {Right: true}, right + " ": {}, "": {}, strings.ToUpper(right): {}} {
		if v, err := h.Verify(t.Context(), hash, password, 1); err != nil || v != want {
			t.Errorf("%q: %+v, %v", password, v, err)
		}
	}
	if v, err := h.Verify(t.Context(), "", "", 1); err != nil || v.Right {
		t.Errorf("a user who does not exist: %+v, %v", v, err)
	}
}

func TestOldHashesAreRightAndToBeRenewed(t *testing.T) {
	h := NewHasher(cheap, nil)
	old, err := bcrypt.GenerateFromPassword([]byte(right), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	weaker, err := NewHasher(Cost{Memory: 16, Time: 1, Threads: 1}, nil).Hash(t.Context(), right, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, hash := range map[string]string{"bcrypt": string(old), "another cost": weaker} {
		if v, err := h.Verify(t.Context(), hash, right, 1); err != nil || v != (Verdict{true, true}) {
			t.Errorf("%s, right: %+v, %v", name, v, err)
		}
		if v, err := h.Verify(t.Context(), hash, "wrong", 1); err != nil || v != (Verdict{}) {
			t.Errorf("%s, wrong: %+v, %v", name, v, err)
		}
	}
}

// A client that can write the store must not be able to exhaust the machine's memory.
func TestHashesThatAreNoneAreRefused(t *testing.T) {
	h := NewHasher(cheap, nil)
	hash, err := h.Hash(t.Context(), right, 0)
	if err != nil {
		t.Fatal(err)
	}
	const salt, sum = "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for _, bad := range []string{"x", "$", "$$$$$", hash + "$", hash[:len(hash)-1], strings.Replace(hash, "argon2id", "argon2i", 1),
		strings.Replace(hash, "v=19", "v=16", 1), strings.Replace(hash, "m=8", "m=08", 1), strings.Replace(hash, "p=1", "p=1,x", 1),
		"$argon2id$v=19$m=4294967295,t=1,p=1$" + salt + "$" + sum, "$argon2id$v=19$m=8,t=4000000000,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=8,t=0,p=1$" + salt + "$" + sum, "$argon2id$v=19$m=8,t=1,p=0$" + salt + "$" + sum, "$argon2id$v=19$m=8,t=1,p=1$$" + sum,
		"$2a$31$" + strings.Repeat("a", 53), "$2a$", "$2"} {
		if v, err := h.Verify(t.Context(), bad, right, 1); !fault.Is(err, fault.Internal) || v.Right || strings.Contains(fmt.Sprint(err), salt) {
			t.Errorf("%q: %+v, %v", bad, v, err)
		}
	}
}

func TestFewHashesAtATime(t *testing.T) {
	h := NewHasher(cheap, nil)
	release := make(chan struct{})
	var mu sync.Mutex
	now, most := 0, 0
	var working sync.WaitGroup
	h.do = func(task) (r result) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		<-release
		mu.Lock()
		now--
		mu.Unlock()
		return r
	}
	for range h.turns.atOnce + hashesWaiting {
		working.Go(func() {
			if _, err := h.Hash(t.Context(), right, 1); err != nil {
				t.Error(err)
			}
		})
	}
	for h.turns.present() < h.turns.atOnce+hashesWaiting {
		runtime.Gosched()
	}
	if _, err := h.Verify(t.Context(), "", right, 1); !fault.Is(err, fault.Unavailable) {
		t.Errorf("one more than may wait: %v", err)
	}
	close(release)
	working.Wait()
	if most != h.turns.atOnce || most > hashesAtOnce || h.turns.present() != 0 {
		t.Errorf("%d at a time, %d left", most, h.turns.present())
	}
}

func TestWhoIsGoneDoesNotWaitForAHash(t *testing.T) {
	h := NewHasher(cheap, nil)
	for range h.turns.atOnce {
		if err := h.turns.wait(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Hash(ctx, right, 0); !fault.Is(err, fault.Unavailable) || h.turns.present() != h.turns.atOnce {
		t.Errorf("%v, %d there", err, h.turns.present())
	}
}

func TestATokenIsProvedByItsSecretAlone(t *testing.T) {
	token, other := NewToken("ann"), NewToken("ann")
	id, secret, err := ParseToken(token.Text)
	if err != nil || id != token.ID || !strings.HasPrefix(id, Owner("ann")) || strings.HasPrefix(id, Owner("bob")) {
		t.Fatalf("%s, %v", id, err)
	}
	if token.ID == other.ID || token.Digest == other.Digest || strings.Contains(token.Digest, secret) {
		t.Errorf("two tokens are alike: %+v", token)
	}
	_, foreign, err := ParseToken(other.Text)
	if err != nil || !Proves(secret, token.Digest) || Proves(foreign, token.Digest) || Proves("", token.Digest) || Proves(secret, "") {
		t.Errorf("proofs: %v", err)
	}
	for _, bad := range []string{"", "ctv1_", token.Text + "0", token.Text[1:], token.Text[:len(token.Text)-1], strings.ToUpper(token.Text),
		"ctv2" + token.Text[4:], " " + token.Text, token.Text + "\n", strings.Replace(token.Text, "_", "-", 2), strings.Repeat("a", 1<<20),
		"ctv1_" + id + "_../../obj", "eyJhbGciOiJub25lIn0.e30."} {
		if _, _, err := ParseToken(bad); !fault.Is(err, fault.Denied) || strings.Contains(err.Error(), secret[:8]) {
			t.Errorf("%.80q: %v", bad, err)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(NewToken("ann").Text)
	f.Fuzz(func(t *testing.T, text string) {
		if id, secret, err := ParseToken(text); err == nil && tokenPrefix+id+"_"+secret != text {
			t.Errorf("%q is taken apart as %q, %q", text, id, secret)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(cheap.hash(right))
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parse(text); err == nil && s.bcrypt == nil && (s.cost.Memory > most.Memory || len(s.digest) != digestSize) {
			t.Errorf("%q is taken as %+v", text, s)
		}
	})
}

func TestGuessesHaveToWaitLongerAndLonger(t *testing.T) {
	g := NewGuesses()
	now := time.Unix(1_000_000, 0)
	for i := range freeGuesses {
		if wait := g.Admit("ann", "10.0.0.1", now); wait != 0 {
			t.Fatalf("guess %d waits %s", i+1, wait)
		}
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		want *= time.Second
		if wait := g.Admit("ann", "10.0.0.1", now); wait != want {
			t.Errorf("waits %s, want %s", wait, want)
		}
		if wait := g.Admit("ann", "10.0.0.1", now.Add(want-time.Millisecond)); wait != time.Millisecond {
			t.Errorf("a moment before: %s", wait)
		}
		now = now.Add(want)
		if wait := g.Admit("ann", "10.0.0.1", now); wait != 0 {
			t.Errorf("waits %s after %s", wait, want)
		}
	}
	// neither another source nor another account is concerned
	for _, other := range []pair{{"ann", "10.0.0.2"}, {"bob", "10.0.0.1"}} {
		if wait := g.Admit(other.account, other.source, now); wait != 0 {
			t.Errorf("%+v waits %s", other, wait)
		}
	}
	if wait := g.Admit("ann", "10.0.0.1", now.Add(2*longestDelay)); wait != 0 {
		t.Errorf("waits %s after all is forgotten", wait)
	}
	if wait := g.Admit("ann", "10.0.0.1", now.Add(2*longestDelay)); wait != 0 {
		t.Errorf("waits %s at the second guess after all is forgotten", wait)
	}
}

func TestARightPasswordForgetsTheWrongOnes(t *testing.T) {
	g := NewGuesses()
	now := time.Unix(1_000_000, 0)
	for range 3 * freeGuesses {
		if wait := g.Admit("ann", "10.0.0.1", now); wait != 0 {
			t.Fatalf("waits %s", wait)
		}
		g.Right("ann", "10.0.0.1", now)
		now = now.Add(time.Second)
	}
	for range 3 * freeGuesses {
		if wait := g.Admit("ann", "10.0.0.1", now); wait != 0 {
			t.Fatalf("what was not judged counts: %s", wait)
		}
		g.Unjudged("ann", "10.0.0.1")
		now = now.Add(time.Second)
	}
}

func TestASourceHasSoManyTriesASecond(t *testing.T) {
	g := NewGuesses()
	now := time.Unix(1_000_000, 0)
	for i := range perSource {
		if wait := g.Admit(fmt.Sprint("user", i), fmt.Sprintf("2001:db8::%x", i), now); wait != 0 {
			t.Fatalf("try %d waits %s", i+1, wait)
		}
	}
	if wait := g.Admit("ann", "2001:db8::ffff", now); wait != time.Second {
		t.Errorf("one more of the same network: %s", wait)
	}
	if wait := g.Admit("ann", "2001:db8:0:1::1", now); wait != 0 {
		t.Errorf("of another network: %s", wait)
	}
	if wait := g.Admit("ann", "2001:db8::ffff", now.Add(time.Second)); wait != 0 {
		t.Errorf("a second later: %s", wait)
	}
}

func TestWhoGuessesMuchIsBehindWhoDoesNot(t *testing.T) {
	g := NewGuesses()
	now := time.Unix(1_000_000, 0)
	try := func(account, address string) int {
		t.Helper()
		if wait := g.Admit(account, address, now); wait != 0 {
			t.Fatalf("%s from %s waits %s", account, address, wait)
		}
		return g.Rank(account, address, now)
	}
	for i := range perSource {
		if rank := try(fmt.Sprint("user", i), "10.0.0.1"); rank != i+2 {
			t.Errorf("try %d of a source has rank %d", i+1, rank)
		}
		g.Unjudged(fmt.Sprint("user", i), "10.0.0.1")
	}
	if rank := try("ann", "10.0.0.2"); rank != 2 {
		t.Errorf("the first try of another source has rank %d", rank)
	}
	now = now.Add(halfForgiven)
	if rank := g.Rank("ann", "10.0.0.1", now); rank != 1+perSource/2 {
		t.Errorf("rank %d after a while", rank)
	}
	before := g.Rank("bob", "10.0.0.1", now)
	try("ann", "10.0.0.1")
	g.Right("ann", "10.0.0.1", now)
	if known, other := g.Rank("ann", "10.0.0.1", now), g.Rank("bob", "10.0.0.1", now); known != 0 || other != before {
		t.Errorf("who had the right password before has rank %d, another account from there %d, before %d", known, other, before)
	}
	try("bob", "10.0.0.1")
	g.Unanswered("bob", "10.0.0.1", now)
	if rank := g.Rank("bob", "10.0.0.1", now); rank != before {
		t.Errorf("after a try that nobody could judge rank %d, before %d", rank, before)
	}
	if rank := g.Rank("ann", "10.0.0.3", now); rank != 1 {
		t.Errorf("from elsewhere he has rank %d", rank)
	}
	now = now.Add(familiarFor)
	if rank := g.Rank("ann", "10.0.0.1", now); rank != 1 {
		t.Errorf("rank %d after a long time", rank)
	}
}

// A user who knows a password, and logs in or changes it without end, does not keep others waiting for ever.
func TestWhoIsRightAllTooOftenGoesFirstNoMore(t *testing.T) {
	for name, again := range map[string]func(g *Guesses, now time.Time) (rank int){
		"logins": func(g *Guesses, now time.Time) int {
			g.Admit("ann", "10.0.0.1", now)
			rank := g.Rank("ann", "10.0.0.1", now)
			g.Right("ann", "10.0.0.1", now)
			return rank
		},
		"changes": func(g *Guesses, now time.Time) int { return g.RankOfChange("ann", "10.0.0.1", now) },
	} {
		g, now := NewGuesses(), time.Unix(1_000_000, 0)
		g.Admit("ann", "10.0.0.1", now)
		g.Right("ann", "10.0.0.1", now)
		last := 0
		for range 3 * freeUses {
			now = now.Add(100 * time.Millisecond)
			rank := again(g, now)
			if rank < last {
				t.Fatalf("%s: rank %d after %d", name, rank, last)
			}
			last = rank
		}
		if stranger := g.Rank("bob", "10.0.0.2", now); last <= stranger {
			t.Errorf("%s: rank %d after %d, a stranger's is %d", name, last, 3*freeUses, stranger)
		}
		if rank := again(g, now.Add(3*halfForgiven)); rank != 0 {
			t.Errorf("%s: rank %d a while later", name, rank)
		}
	}
	g := NewGuesses()
	if rank := g.RankOfChange("ann", "10.0.0.1", time.Unix(1_000_000, 0)); rank != 1 {
		t.Errorf("who changes a password where he has shown none has rank %d", rank)
	}
}

func TestGuessesTakeBoundedMemory(t *testing.T) {
	g := NewGuesses()
	now := time.Unix(1_000_000, 0)
	for i := range remembered + 1000 {
		g.Admit(fmt.Sprint("user", i), fmt.Sprint(i), now)
		g.Right(fmt.Sprint("known", i), fmt.Sprint(i), now)
		now = now.Add(time.Millisecond)
	}
	if len(g.tries) > remembered || len(g.sources) > remembered || len(g.familiar) > remembered {
		t.Errorf("%d pairs, %d sources, %d familiar", len(g.tries), len(g.sources), len(g.familiar))
	}
}

// What one login costs; two at a time.
func BenchmarkHash(b *testing.B) {
	for b.Loop() {
		DefaultCost.hash(right)
	}
}
