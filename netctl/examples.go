package netctl

// rootSocket is the socket of netmaster for the machine's root user, who needs no login.
const rootSocket = "unix:///run/contiv/netmaster.sock"

// examples are command lines shown in help, by command.
var examples = map[string][]string{
	"aci-gw info":    {"netctl aci-gw info"},
	"aci-gw inspect": {"netctl aci-gw inspect"},
	"aci-gw set":     {"netctl aci-gw set --phys-dom allvlans --path-bindings topology/pod-1/paths-101/pathep-[eth1/14]"},

	"app-profile create":   {"netctl app-profile create shop -t blue --group front,back"},
	"app-profile update":   {"netctl app-profile update shop -t blue --group front,back,db", "netctl app-profile update shop -t blue --group ''"},
	"app-profile rm":       {"netctl app-profile rm shop -t blue"},
	"app-profile ls":       {"netctl app-profile ls -t blue", "netctl app-profile ls --all"},
	"app-profile inspect":  {"netctl app-profile inspect shop -t blue"},
	"app-profile group-ls": {"netctl app-profile group-ls shop -t blue"},

	"apply": {
		"netctl apply -f shop.yaml",
		"netctl apply -f tenants.yaml -f networks/ --dry-run",
		"netctl export | netctl --netmaster http://other:9999 apply -f -",
	},

	"bgp create": {
		"netctl bgp create node1 --router-ip 50.1.1.2/24 --as 65002 --neighbor-as 500 --neighbor 50.1.1.1",
		"netctl bgp create node1 --router-ip 50.1.1.2/24 --as 65002 --neighbor-as 500 --neighbor 50.1.1.1 --neighbors 50.1.1.3=500 --hold-time 9",
	},
	"bgp rm":      {"netctl bgp rm node1"},
	"bgp ls":      {"netctl bgp ls", "netctl bgp ls -o wide"},
	"bgp inspect": {"netctl bgp inspect node1"},

	"check": {
		"netctl check",
		"netctl check --preflight",
		"netctl check --probe --tenant blue --network web --group front",
	},
	"completion": {
		"source <(netctl completion bash)",
		"netctl completion zsh > \"${fpath[1]}/_netctl\"",
		"netctl completion fish > ~/.config/fish/completions/netctl.fish",
	},
	"delete": {
		"netctl delete network web -t blue",
		"netctl delete rule shop:web-in -t blue --ignore-not-found",
		"netctl delete -f shop.yaml --dry-run",
	},
	"describe": {"netctl describe network web -t blue", "netctl describe endpoint front-1", "netctl describe network-policy shop/db"},
	"diff":     {"netctl diff -f shop.yaml", "netctl export -t blue | netctl --netmaster http://other:9999 diff -f -"},

	"endpoint ls":      {"netctl endpoint ls -t blue", "netctl endpoint ls --all --host node1 -o wide"},
	"endpoint inspect": {"netctl endpoint inspect front-1"},

	"network-policy inspect": {"netctl network-policy inspect shop/db"},

	"trace":   {"netctl trace shop/web shop/db --port 5432", "netctl trace shop/web 10.1.2.3 --protocol icmp"},
	"verdict": {"netctl verdict shop/web shop/db --port 5432"},

	"explain": {"netctl explain network", "netctl explain rule.protocol"},
	"export":  {"netctl export > cluster.yaml", "netctl export -t blue -o json"},

	"external-contracts create":  {"netctl external-contracts create web -t blue --provided --contract uni/tn-common/brc-web"},
	"external-contracts rm":      {"netctl external-contracts rm web -t blue"},
	"external-contracts ls":      {"netctl external-contracts ls -t blue"},
	"external-contracts inspect": {"netctl external-contracts inspect web -t blue"},

	"get": {
		"netctl get networks -t blue",
		"netctl get rule shop:web-in -t blue -o yaml",
		"netctl get groups --all --watch",
		"netctl get all --all -o name",
	},

	"global info":    {"netctl global info"},
	"global inspect": {"netctl global inspect"},
	"global set":     {"netctl global set --vlan-range 100-200", "netctl global set --fwd-mode routing --arp-mode proxy"},

	"group create":  {"netctl group create web front -t blue", "netctl group create web db -t blue --policy shop --ip-pool 10.7.0.10-10.7.0.20"},
	"group update":  {"netctl group update front -t blue --policy shop --policy mail", "netctl group update front -t blue --policy ''"},
	"group rm":      {"netctl group rm front -t blue"},
	"group ls":      {"netctl group ls -t blue", "netctl group ls --all -o wide"},
	"group inspect": {"netctl group inspect front -t blue"},

	"login": {"netctl --netmaster https://10.0.0.1:9999 login -u ann", "netctl --netmaster https://proxy:10000 login -u admin --password-stdin < password",
		"netctl --netmaster https://10.0.0.1:9999 login --openid"},
	"logout": {"netctl --netmaster https://proxy:10000 logout"},

	"netprofile create":  {"netctl netprofile create slow -t blue --bandwidth 10Mbps --burst 20 --dscp 7"},
	"netprofile rm":      {"netctl netprofile rm slow -t blue"},
	"netprofile ls":      {"netctl netprofile ls -t blue"},
	"netprofile inspect": {"netctl netprofile inspect slow -t blue"},

	"network create": {
		"netctl network create web -t blue --subnet 10.7.0.0/24 --gateway 10.7.0.254",
		"netctl network create lan -t blue --encap vlan --pkt-tag 100 --subnet 10.8.0.10-10.8.0.99/24",
		"netctl network create dual -t blue --subnet 10.9.0.0/24 --subnetv6 2001:db8:9::/64",
	},
	"network rm":      {"netctl network rm web -t blue"},
	"network ls":      {"netctl network ls -t blue", "netctl network ls --all -o wide"},
	"network inspect": {"netctl network inspect web -t blue"},

	"policy create":  {"netctl policy create shop -t blue"},
	"policy rm":      {"netctl policy rm shop -t blue"},
	"policy ls":      {"netctl policy ls -t blue"},
	"policy inspect": {"netctl policy inspect shop -t blue"},
	"policy rule-add": {
		"netctl policy rule-add shop deny-all -t blue --direction in --action deny",
		"netctl policy rule-add shop web-in -t blue --direction in --protocol tcp --port 80 --priority 10",
		"netctl policy rule-add shop to-db -t blue --direction out --to-group db --protocol tcp --port 5432",
	},
	"policy rule-rm":      {"netctl policy rule-rm shop web-in -t blue"},
	"policy rule-ls":      {"netctl policy rule-ls shop -t blue"},
	"policy rule-inspect": {"netctl policy rule-inspect shop web-in -t blue"},

	"service create":  {"netctl service create vip -t blue --network web --selector app=shop --port 80:8080:TCP"},
	"service rm":      {"netctl service rm vip -t blue"},
	"service ls":      {"netctl service ls -t blue", "netctl service ls --all -o wide"},
	"service inspect": {"netctl service inspect vip -t blue"},

	"whoami": {"netctl whoami", "netctl whoami -o json"},

	"user create": {
		"netctl --netmaster " + rootSocket + " user create ann --first-name Ann",
		"netctl --netmaster https://10.0.0.1:9999 user create ann --password-stdin < password",
	},
	"user ls":       {"netctl user ls", "netctl user ls -o json"},
	"user update":   {"netctl user update ann --last-name Smith", "netctl user update ann --disable"},
	"user password": {"netctl user password ann"},
	"user cert":     {"netctl user cert --dir certs", "netctl user cert --list ann", "netctl user cert --revoke ann"},
	"user logout":   {"netctl user logout ann"},
	"user rm":       {"netctl user rm ann"},

	"role grant":  {"netctl role grant ann admin", "netctl role grant ann tenant-admin -t blue", "netctl role grant cn=net,ou=groups,dc=example,dc=org viewer --group"},
	"role revoke": {"netctl role revoke ann tenant-admin -t blue"},
	"role ls":     {"netctl role ls"},

	"ldap set":  {"netctl ldap set --server ldap.example.org --base-dn dc=example,dc=org --account cn=contiv,dc=example,dc=org --password-stdin < password"},
	"ldap show": {"netctl ldap show", "netctl ldap show -o yaml"},
	"ldap rm":   {"netctl ldap rm"},

	"openid set":  {"netctl openid set --issuer https://login.example.org --client-id contiv --client-secret-stdin --scopes profile,groups < secret"},
	"openid show": {"netctl openid show", "netctl openid show -o yaml"},
	"openid rm":   {"netctl openid rm"},

	"api-token create": {
		"netctl api-token create ci --role tenant-admin --tenants blue,green",
		"netctl api-token create prometheus --role metrics --ttl 8760h -q > token",
	},
	"api-token ls": {"netctl api-token ls", "netctl api-token ls -o yaml"},
	"api-token rm": {"netctl api-token rm ci"},

	"node ls":    {"netctl node ls", "netctl node ls --masters -o json"},
	"node rm":    {"netctl --netmaster " + rootSocket + " node rm worker-3"},
	"node rekey": {"netctl --netmaster " + rootSocket + " node rekey worker-3"},

	"security status":      {"netctl security status", "netctl --netmaster " + rootSocket + " security status -o json"},
	"security init":        {"netctl --netmaster " + rootSocket + " security init --dry-run", "netctl --netmaster " + rootSocket + " security init"},
	"security report":      {"netctl --netmaster " + rootSocket + " security report"},
	"security enforce":     {"netctl --netmaster " + rootSocket + " security enforce --dry-run", "netctl --netmaster " + rootSocket + " security enforce"},
	"security relax":       {"netctl --netmaster " + rootSocket + " security relax"},
	"security rotate-keys": {"netctl --netmaster " + rootSocket + " security rotate-keys --dry-run", "netctl --netmaster " + rootSocket + " security rotate-keys"},
	"security rotate-ca":   {"netctl --netmaster " + rootSocket + " security rotate-ca --dry-run", "netctl --netmaster " + rootSocket + " security rotate-ca"},

	"token create": {
		"netctl --netmaster https://10.0.0.1:9999 --cacert ca.pem token create --role node",
		"netctl --netmaster " + rootSocket + " token create --role node --host 'worker-*' --uses 3 --ttl 1h -q > /run/join-token",
	},
	"token ls": {"netctl --netmaster " + rootSocket + " token ls"},
	"token rm": {"netctl --netmaster " + rootSocket + " token rm k3xq7v2mza"},

	"status": {"netctl status", "netctl --netmaster http://10.0.0.1:9999,http://10.0.0.2:9999 status -o yaml"},

	"tenant create":  {"netctl tenant create blue", "netctl tenant create blue --max-networks 10 --vlans 100-109", "netctl tenant create shop --policy-mode final"},
	"tenant update":  {"netctl tenant update blue --max-networks 100 --vlans 100,200-299", "netctl tenant update shop --policy-mode ''"},
	"tenant rm":      {"netctl tenant rm blue", "netctl tenant rm blue --ignore-not-found"},
	"tenant ls":      {"netctl tenant ls", "netctl tenant ls -o wide"},
	"tenant inspect": {"netctl tenant inspect blue"},

	"version": {"netctl version"},
}
