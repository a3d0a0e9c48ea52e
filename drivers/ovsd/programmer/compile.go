package programmer

import (
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// compiled is what an object needs.
type compiled struct {
	key   pipeline.Key
	wants packed
	err   error
}

// compileBlock is how many objects are computed before they are entered.
const compileBlock = 1024

// compile computes what objects need again. That is most of the work of a large change, and an object's needs
// depend on that object alone: it is done on all processors.
func (p *Programmer) compile(keys []pipeline.Key) {
	for block := range slices.Chunk(keys, compileBlock) {
		results := make([]compiled, len(block))
		inParallel(len(block), func(i int) { results[i] = p.compiled(block[i]) })
		for _, c := range results {
			p.enter(c)
		}
	}
}

// compileAll computes everything again: the switch is another one.
func (p *Programmer) compileAll() {
	p.compiler = p.config.Compiler(p.fixed, p.can)
	p.enter(packedFor(baseKey, p.compiler.Base(), nil))
	p.compile(slices.Collect(maps.Keys(p.objects)))
}

func (p *Programmer) compiled(key pipeline.Key) compiled {
	var port uint32
	o := p.objects[key]
	if id, has := pipeline.PortID(o); has {
		port = p.config.Ports.EndpointNumber(id)
		if e, is := o.(pipeline.Endpoint); is {
			e.Slowed = p.config.Ports.Slowed(id)
			o = e
		}
	}
	wants, err := p.compiler.For(o, port)
	return packedFor(key, wants, err)
}

// packedFor packs what was computed for an object, unless that failed.
func packedFor(key pipeline.Key, wants pipeline.Wants, err error) compiled {
	c := compiled{key: key, err: err}
	if err == nil {
		c.wants, c.err = pack(wants)
	}
	return c
}

// inParallel calls a function for the numbers from 0 to n-1, on all processors.
func inParallel(n int, do func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), (n+31)/32) // a few are not worth it
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < n; i += workers {
				do(i)
			}
		})
	}
	group.Wait()
}
