package rest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/utils/fault"
)

// Methods are the answers of one path, by HTTP method. HEAD is answered as GET.
type Methods map[string]Answer

// Route is a path with its methods, and the area of rights that it needs.
// Without an area it is refused to all clients of a secured cluster.
type Route struct {
	Path    string
	Area    rights.Area
	Methods Methods
	Tried   bool // dryRun is supported
}

// At returns a route.
func At(path string, area rights.Area, methods Methods) Route {
	return Route{Path: path, Area: area, Methods: methods}
}

// Trying returns a route whose answers read dryRun themselves.
func Trying(path string, area rights.Area, methods Methods) Route {
	return Route{Path: path, Area: area, Methods: methods, Tried: true}
}

// CanBeTried refuses dryRun for a change on a route that does not support it.
func (r Route) CanBeTried(request *http.Request) error {
	if r.Tried || request.Method == http.MethodGet || request.Method == http.MethodHead {
		return nil
	}
	if dryRun, err := Flag(request, "dryRun"); err != nil || !dryRun {
		return err
	}
	return fault.New(fault.Invalid, "%s of %s cannot be tried with dryRun: nothing was done", request.Method, request.URL.Path).WithField("dryRun")
}

// Allow lists the supported methods.
func (m Methods) Allow() string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	if slices.Contains(names, http.MethodGet) {
		names = append(names, http.MethodHead)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
