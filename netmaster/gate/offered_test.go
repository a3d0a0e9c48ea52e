package gate

import (
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/contiv/netplugin/test/testkit"
)

// Any call of etcd's protocol, now or in a later version of it, is refused and recorded unless it is offered.
func TestNodesHaveTheCallsThatAreOffered(t *testing.T) {
	b := newBed(t)
	withLog, read := audited(t)
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open(withLog))
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil })
	client, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn := client.ActiveConnection()
	var refused []string
	for _, service := range []*grpc.ServiceDesc{&pb.KV_ServiceDesc, &pb.Watch_ServiceDesc, &pb.Lease_ServiceDesc, &pb.Cluster_ServiceDesc,
		&pb.Maintenance_ServiceDesc, &pb.Auth_ServiceDesc, &v3lockpb.Lock_ServiceDesc, &v3electionpb.Election_ServiceDesc,
		{ServiceName: "etcdserverpb.Later", Methods: []grpc.MethodDesc{{MethodName: "Call"}}, Streams: []grpc.StreamDesc{{StreamName: "Stream", ServerStreams: true}}}} {
		answers := map[string]error{} // by method
		for _, method := range service.Methods {
			name := "/" + service.ServiceName + "/" + method.MethodName
			if !isOffered(name) {
				answers[name] = conn.Invoke(t.Context(), name, &emptypb.Empty{}, &emptypb.Empty{})
			}
		}
		for _, method := range service.Streams {
			name := "/" + service.ServiceName + "/" + method.StreamName
			if isOffered(name) {
				continue
			}
			stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, name)
			if err == nil {
				_ = stream.SendMsg(&emptypb.Empty{}) // the answer has the reason
				err = stream.RecvMsg(&emptypb.Empty{})
			}
			answers[name] = err
		}
		for name, err := range answers {
			refused = append(refused, name[strings.LastIndex(name, "/")+1:])
			if status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if len(refused) < 30 {
		t.Errorf("%d calls were tried: %v", len(refused), refused)
	}
	testkit.Eventually(t, soon, "a line of each", func() bool { return strings.Count(read(), `"decision":"denied"`) == len(refused) })
	for _, call := range refused {
		if !strings.Contains(read(), `"verb":"`+call+`"`) {
			t.Errorf("no line of %s", call)
		}
	}
}
