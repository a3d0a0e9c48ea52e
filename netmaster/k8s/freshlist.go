package k8s

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// anyVersion is what informers ask of an API server that streams no lists for their first list: the objects of some time, out of its
// cache. That of one that lags behind is minutes old.
const anyVersion = "0"

// ofNow has informers list what there is. A leader begins with a list, and takes what is not in it for gone: policies that are newer than
// an old one would open, and the places of pods that run would go.
func ofNow(o *metav1.ListOptions) {
	if o.ResourceVersion == anyVersion {
		o.ResourceVersion = ""
	}
}
