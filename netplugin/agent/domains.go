package agent

import (
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
)

// named knows which rules have names of domains as peers, and what those stand for.
type named struct {
	names map[string][]string // by rule
	users index               // name -> rules
	book  domains.Book
	heard bool // since the book was written down
}

func newNamed() named {
	return named{names: make(map[string][]string), users: make(index), book: make(domains.Book)}
}

// nameService ends the id of the service of Kubernetes whose answers are believed.
const nameService = "/kube-system/kube-dns"

// setNames says which names a rule has. What is known of a name that comes again later still counts.
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

// overhears tells whether the agent wants to know what a service answers.
func (c *cache) overhears(service string) bool {
	return len(c.named.users) > 0 && strings.HasSuffix(service, nameService)
}

// addressesFor are those of the names of a rule.
func (c *cache) addressesFor(rule string) []netip.Prefix { return c.named.book.Of(c.named.names[rule]) }

// renamed has the rules looked at that have one of some names.
func (c *cache) renamed(names []string) {
	for _, name := range names {
		for rule := range c.named.users[name] {
			c.mark(pipeline.KindTierRule, rule)
		}
	}
}

// HearAnswer takes over what endpoints were told of a name. Connections are not judged anew for it: what was refused
// until now tries again.
func (a *Agent) HearAnswer(answer domains.Answer) {
	a.learn(func(n *named) (changed []string, write bool) {
		changed, news := n.book.Hear(slices.Collect(maps.Keys(n.users)), answer, time.Now())
		n.heard = n.heard || news
		return changed, len(changed) > 0
	})
}

// ForgetAnswers forgets what does not count any more.
func (a *Agent) ForgetAnswers(now time.Time) {
	a.learn(func(n *named) (changed []string, write bool) {
		changed = n.book.Expire(now)
		return changed, n.heard || len(changed) > 0
	})
}

// learn changes the book. It is written down for the next agent of this node, at once where addresses come or go.
func (a *Agent) learn(change func(n *named) (changed []string, write bool)) {
	a.mu.Lock()
	changed, write := change(&a.cache.named)
	a.cache.renamed(changed)
	var text []byte
	var err error
	if write {
		text, err = json.Marshal(a.cache.named.book)
		a.cache.named.heard = false
	}
	a.mu.Unlock()
	if len(changed) > 0 {
		a.changed.Ring()
	}
	if err == nil && write && a.cfg.AnswersFile != "" {
		err = durable.Put(a.cfg.AnswersFile, text)
	}
	if err != nil {
		a.log.WithError(err).Warn("what names of domains stand for is not written down: the next agent has to hear it again")
	}
}

// recallAnswers takes over what the agent before has heard.
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
