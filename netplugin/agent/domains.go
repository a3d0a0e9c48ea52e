package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/contiv/netplugin/netplugin/domains"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/retry"
)

// named knows which rules have domain names as peers, and the addresses of the names.
type named struct {
	names map[string][]string // by rule
	users index               // name -> rules
	book  domains.Book

	changed   map[string]struct{} // names whose addresses have changed since their rules were planned
	unwritten bool                // the book has changes that are not in its file
}

func newNamed() named {
	return named{names: make(map[string][]string), users: make(index), book: make(domains.Book), changed: make(map[string]struct{})}
}

// nameService is the suffix of the id of the cluster's DNS service, whose answers are trusted.
const nameService = "/kube-system/kube-dns"

// setNames sets the domain names of a rule. Addresses of a name stay known while no rule has it, and count if
// it returns.
func (c *cache) setNames(rule string, names []string) {
	before := len(c.named.users) > 0
	for _, name := range c.named.names[rule] {
		c.named.users.remove(name, rule)
	}
	delete(c.named.names, rule)
	for _, name := range names {
		c.named.names[rule] = append(c.named.names[rule], domains.Fold(name))
		c.named.users.add(domains.Fold(name), rule)
	}
	if before == (len(c.named.users) > 0) {
		return
	}
	for id := range c.kube.services {
		if strings.HasSuffix(id, nameService) {
			c.mark(pipeline.KindService, kubeID+id)
		}
	}
}

// wantsAnswersOf reports whether the agent has to read the DNS answers of a service.
func (c *cache) wantsAnswersOf(service string) bool {
	return len(c.named.users) > 0 && strings.HasSuffix(service, nameService)
}

// addressesFor returns the addresses of a rule's names: open ones, and those that only established connections
// keep.
func (c *cache) addressesFor(rule string) (open, over []netip.Prefix) {
	return c.named.book.Of(c.named.names[rule])
}

// markNamed marks the rules whose names have changed addresses.
func (c *cache) markNamed() {
	for name := range c.named.changed {
		for rule := range c.named.users[name] {
			c.mark(pipeline.KindTierRule, rule)
		}
	}
	clear(c.named.changed)
}

// HearAnswer records a DNS answer that endpoints received. It does not start a new epoch: connections that were
// refused before are retried by their clients.
func (a *Agent) HearAnswer(answer domains.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := &a.cache.named
	changed, news := n.book.Hear(slices.Collect(maps.Keys(n.users)), answer, time.Now())
	n.unwritten = n.unwritten || news
	a.wakeFollowNames(changed)
}

// ForgetAnswers drops expired addresses.
func (a *Agent) ForgetAnswers(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := a.cache.named.book.Expire(now)
	a.cache.named.unwritten = a.cache.named.unwritten || len(changed) > 0
	a.wakeFollowNames(changed)
	if a.cache.named.unwritten { // longer lifetimes of known addresses are saved only now
		a.settle.Send()
	}
}

// wakeFollowNames makes followNames process names whose addresses have changed. The caller holds mu.
func (a *Agent) wakeFollowNames(changed []string) {
	for _, name := range changed {
		a.cache.named.changed[name] = struct{}{}
	}
	if len(changed) > 0 {
		a.settle.Send()
	}
}

// namesEvery is the minimum interval of planning rules because of their names, and of saving addresses. An
// endpoint can cause any number of answers, each of which would cost all addresses of a rule. TCP retries after
// a second.
const namesEvery = 200 * time.Millisecond

// writingShare limits the time spent on saving where there are very many answers, to one part in so many.
const writingShare = 20

// followNames plans the rules whose names have changed addresses, and saves the addresses for the node's next
// agent.
func (a *Agent) followNames(ctx context.Context) error {
	var due time.Time // when the next save is allowed
	later := time.NewTimer(0)
	defer later.Stop()
	write := func() {
		if rest := time.Until(due); rest > 0 {
			later.Reset(rest)
			return
		}
		took := a.writeAnswers()
		due = time.Now().Add(writingShare * took)
	}
	for {
		select {
		case <-ctx.Done():
			a.writeAnswers()
			return ctx.Err()
		case <-later.C:
			write()
			continue
		case <-a.settle:
		}
		a.mu.Lock()
		a.cache.markNamed()
		a.mu.Unlock()
		a.changed.Send()
		write()
		retry.Pause(ctx, namesEvery)
	}
}

// writeAnswers saves the addresses if the file is out of date, and returns how long that took.
func (a *Agent) writeAnswers() time.Duration {
	a.mu.Lock()
	write := a.cache.named.unwritten && a.cfg.AnswersFile != ""
	var book domains.Book
	if write {
		book = a.cache.named.book.Clone()
	}
	a.cache.named.unwritten = false
	a.mu.Unlock()
	if !write {
		return 0
	}
	began := time.Now()
	text, err := json.Marshal(book) // slow if there are very many answers
	if err == nil {
		err = durable.Put(a.cfg.AnswersFile, text)
	}
	if err != nil {
		a.log.WithError(err).Warn("what names of domains stand for is not written down, and is tried again: until then the next agent has to hear it anew")
		a.mu.Lock()
		a.cache.named.unwritten = true
		a.mu.Unlock()
	}
	return time.Since(began)
}

// recallAnswers loads the addresses that the previous agent saved.
func (a *Agent) recallAnswers() {
	text, err := os.ReadFile(a.cfg.AnswersFile)
	if a.cfg.AnswersFile == "" || errors.Is(err, fs.ErrNotExist) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		err = json.Unmarshal(text, &a.cache.named.book)
	}
	if err != nil {
		a.log.WithError(err).WithField("file", a.cfg.AnswersFile).Warn("what names of domains stand for is not known any more")
	}
	if a.cache.named.book == nil {
		a.cache.named.book = make(domains.Book)
	}
}
