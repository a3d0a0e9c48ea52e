package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// question is a way of reaching a pod; the matrix prints its letter.
type question struct {
	letter string
	port   string // empty: ping
}

var questions = []question{{"p", ""}, {"o", otherPort}, {"a", allowedPort}}

// target returns the address of a pod for a question.
func (q question) target(ip netip.Addr) string {
	if q.port == "" {
		return ip.String()
	}
	return net.JoinHostPort(ip.String(), q.port)
}

func (s *Scenario) matrixOpen(ctx context.Context) error {
	if err := s.gatewaysAnswer(ctx); err != nil {
		return err
	}
	return s.matrix(ctx, noRules, openRules)
}

func (s *Scenario) matrixOpenAgain(ctx context.Context) error {
	if err := s.netctl(ctx, "group", "create", "-t", "blue", "back", "db"); err != nil {
		return err
	}
	return s.matrix(ctx, guardedRules, openRules)
}

// matrixGuarded attaches a policy to db: no new connections to it, and no pings, except to the allowed port from
// web. Rules are stateless: denying tcp without a port denies only new connections, denying icmp every icmp packet
// to db, answers to db's own pings included.
func (s *Scenario) matrixGuarded(ctx context.Context) error {
	err := s.netctlAll(ctx,
		[]string{"policy", "create", "-t", "blue", "guard"},
		[]string{"policy", "rule-add", "-t", "blue", "-d", "in", "-l", "tcp", "-p", "1", "-j", "deny", "guard", "no-tcp"},
		[]string{"policy", "rule-add", "-t", "blue", "-d", "in", "-l", "icmp", "-p", "1", "-j", "deny", "guard", "no-icmp"},
		[]string{"policy", "rule-add", "-t", "blue", "-d", "in", "-l", "tcp", "-P", allowedPort, "-g", "web", "-p", "10", "guard", "web-only"},
		[]string{"group", "create", "-t", "blue", "-p", "guard", "back", "db"},
	)
	if err != nil {
		return err
	}
	return s.matrix(ctx, openRules, guardedRules)
}

// rules report whether a pod reaches another one by a question.
type rules func(from, to podSpec, q question) bool

// noRules are the rules before there are pods: none reaches another.
func noRules(podSpec, podSpec, question) bool { return false }

// openRules are the rules without policies: pods reach each other within their tenant and never beyond it.
func openRules(from, to podSpec, _ question) bool { return from.tenant == to.tenant }

// guardedRules are openRules and the policy on db.
func guardedRules(from, to podSpec, q question) bool {
	switch {
	case !openRules(from, to, q):
		return false
	case to.group == "db" && q.port == allowedPort:
		return from.group == "web"
	case to.group == "db":
		return false
	case q.port == "" && from.group == "db":
		return false // the answer would be icmp to db
	}
	return true
}

// matrix sends every question from every pod to every other one and checks the answers against the rules. Rows are
// sources; a cell has the letters of the questions that were answered.
//
// For a while, allowed questions may still fail. Denied questions that were allowed before the change may still
// succeed, until all of them have failed once. Anything else is a leak, which ends the wait.
func (s *Scenario) matrix(ctx context.Context, before, now rules) error {
	started := time.Now()
	for enforced := false; ; {
		asked := time.Since(started)
		answers, err := s.askAll(ctx)
		if err != nil {
			return err
		}
		if enforced {
			before = now
		}
		wrong, through, leaks := s.wrongAnswers(answers, before, now)
		if enforced = enforced || !through; len(wrong) > 0 && !leaks && asked < settling {
			continue
		}
		s.printMatrix(answers)
		for _, from := range podSpecs {
			s.check(len(wrong[from.name]) == 0, "%s reaches exactly what it should %s", from.name, strings.Join(wrong[from.name], ", "))
		}
		return nil
	}
}

// askAll returns the answers that all pods get: source -> target -> answer.
func (s *Scenario) askAll(ctx context.Context) (map[string]map[string]string, error) {
	var mu sync.Mutex
	answers := map[string]map[string]string{}
	return answers, s.eachPod(func(spec podSpec, pod *testbed.Pod) error {
		got, err := s.ask(ctx, pod)
		mu.Lock()
		defer mu.Unlock()
		answers[spec.name] = got
		return err
	})
}

// wrongAnswers returns, by source, the deviations from the present rules. It reports whether any denied question
// succeeds, and whether any of those was denied before, too.
func (s *Scenario) wrongAnswers(answers map[string]map[string]string, before, now rules) (wrong map[string][]string, through, leaks bool) {
	wrong = map[string][]string{}
	for _, from := range podSpecs {
		for _, to := range podSpecs {
			if from == to {
				continue
			}
			for _, q := range questions {
				got, want := reached(answers[from.name], s.pods[from.name], to, s.pods[to.name], q), now(from, to, q)
				if got != want {
					wrong[from.name] = append(wrong[from.name], fmt.Sprintf("%s/%s want %v", to.name, q.letter, want))
				}
				if got && !want {
					through, leaks = true, leaks || !before(from, to, q)
				}
			}
		}
	}
	return wrong, through, leaks
}

// reached reports whether the question reached that very pod. Where tenants share an address, the name in the
// answer decides; a ping has no name, so between tenants it counts only if the source's tenant does not have the
// address too.
func reached(answers map[string]string, from *testbed.Pod, to podSpec, pod *testbed.Pod, q question) bool {
	answer := answers[q.target(pod.IP)]
	if q.port != "" {
		return answer == to.name
	}
	return answer == "pong" && (from.Tenant == to.tenant || to.network == "back")
}

// ask sends all questions of one pod at once, and returns the answers.
func (s *Scenario) ask(ctx context.Context, from *testbed.Pod) (map[string]string, error) {
	var pings, tcp []string
	for _, spec := range podSpecs {
		ip := s.pods[spec.name].IP
		if ip == from.IP {
			continue // itself, or the pod of the other tenant with the same address
		}
		for _, q := range questions {
			if q.port == "" {
				pings = append(pings, q.target(ip))
			} else {
				tcp = append(tcp, q.target(ip))
			}
		}
	}
	out, err := from.Run(ctx, from.Probe(), "reach", "-ping", strings.Join(pings, ","), "-tcp", strings.Join(tcp, ","))
	if err != nil {
		return nil, err
	}
	var answers map[string]string
	if err := json.Unmarshal([]byte(out), &answers); err != nil {
		return nil, fmt.Errorf("%s: reach: %w", from.Name, err)
	}
	return answers, nil
}

func (s *Scenario) printMatrix(answers map[string]map[string]string) {
	fmt.Fprintf(s.out, "   %-6s", "")
	for _, to := range podSpecs {
		fmt.Fprintf(s.out, "%-6s", to.name)
	}
	fmt.Fprintf(s.out, "   p ping, o tcp/%s, a tcp/%s\n", otherPort, allowedPort)
	for _, from := range podSpecs {
		fmt.Fprintf(s.out, "   %-6s", from.name)
		for _, to := range podSpecs {
			cell := ""
			for _, q := range questions {
				if from != to && reached(answers[from.name], s.pods[from.name], to, s.pods[to.name], q) {
					cell += q.letter
				} else {
					cell += "."
				}
			}
			fmt.Fprintf(s.out, "%-6s", cell)
		}
		fmt.Fprintln(s.out)
	}
}

// gatewaysAnswer pings the gateway of each pod.
func (s *Scenario) gatewaysAnswer(ctx context.Context) error {
	return s.eachPod(func(spec podSpec, pod *testbed.Pod) error {
		if _, err := pod.Run(ctx, "ping", "-c1", "-W10", "-n", "-q", pod.Gateway.String()); err != nil {
			return fmt.Errorf("gateway of %s does not answer: %w", spec.name, err)
		}
		return nil
	})
}
