#compdef netctl
# zsh completion of netctl
_netctl() {
	local -a candidates
	local value description
	while IFS=$'\t' read -r value description; do
		candidates+=("${value//:/\\:}${description:+:$description}")
	done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
	if (( ${#candidates} )); then
		_describe netctl candidates
	else
		_files
	fi
}
if [ "$funcstack[1]" = "_netctl" ]; then
	_netctl "$@"
else
	compdef _netctl netctl
fi
