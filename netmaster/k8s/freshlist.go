package k8s

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// anyVersion is the resource version of an informer's first list, if the API server does not stream lists:
// objects of any version, from its cache. The cache of a server that lags behind may be minutes old.
const anyVersion = "0"

// ofNow makes informers list the present objects. A leader begins with a list, and treats everything that it
// lacks as deleted: an old list would remove newer policies, and the places of running pods.
func ofNow(o *metav1.ListOptions) {
	if o.ResourceVersion == anyVersion {
		o.ResourceVersion = ""
	}
}
