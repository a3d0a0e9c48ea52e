# Installs the CNI plugin and its configuration. Arguments: the content of
# contiv.json, the plugin, the plugin's configuration.
mkdir -p /var/contiv/config
printf %s "$1" > /var/contiv/config/contiv.json
cp "$2" /opt/cni/bin/contivk8s
cp /usr/lib/cni/loopback /opt/cni/bin/loopback
rm -f /etc/cni/net.d/*
printf %s "$3" > /etc/cni/net.d/05-contiv.conflist.new
mv /etc/cni/net.d/05-contiv.conflist.new /etc/cni/net.d/05-contiv.conflist
