# Makes a machine of the test bed one that containers can run on. Arguments: a
# directory for what they write, the name of its control group.
mount --make-rshared /
for d in containerd kubelet; do
  mkdir -p "$1/$d" "/var/lib/$d"
  mount --bind "$1/$d" "/var/lib/$d"
done
mkdir -p "$1/opt/upper" "$1/opt/work" /var/log/pods
mount -t overlay overlay -o "lowerdir=/opt,upperdir=$1/opt/upper,workdir=$1/opt/work" /opt
mkdir -p /opt/cni/bin /var/lib/kubelet/static

mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
sed -n '2,$p' /proc/cgroups | while read -r controller hierarchy _; do
  [ "$hierarchy" != 0 ] || continue
  mkdir "/sys/fs/cgroup/$controller"
  mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller"
  mkdir -p "/sys/fs/cgroup/$controller/$2"
done
# The one that no controller is in: who enters a container enters all its groups.
mkdir /sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
for f in cpus mems; do
  cat "/sys/fs/cgroup/cpuset/cpuset.$f" > "/sys/fs/cgroup/cpuset/$2/cpuset.$f"
done
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
