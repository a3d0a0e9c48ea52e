package rest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/rights"
)

// Methods are the answers of one path, by the method of HTTP. HEAD is answered as GET.
type Methods map[string]Answer

// Route is a path with its methods, and the area of rights that it is in. One without
// an area is refused to everybody in a cluster that asks for rights.
type Route struct {
	Path    string
	Area    rights.Area
	Methods Methods
}

// At is a route.
func At(path string, area rights.Area, methods Methods) Route { return Route{path, area, methods} }

// Allow lists the methods served.
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
